// A build without CUDA.
#include "worker/backend/cuda/cuda_backend.h"

namespace jacserve::worker {
namespace {

absl::Status BuiltWithout() {
  return absl::FailedPreconditionError(
      "this build has no CUDA: build where CUDA 13 is installed, or configure with JACSERVE_CUDA=ON to be told what is "
      "missing. Or compute with --device cpu");
}

}  // namespace

absl::StatusOr<CudaDevice> FindCudaDevice() { return BuiltWithout(); }

absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices() { return BuiltWithout(); }

void ReleaseCudaDevice() {}

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(DType, bool) { return BuiltWithout(); }

}  // namespace jacserve::worker
