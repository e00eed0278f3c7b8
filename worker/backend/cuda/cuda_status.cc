#include "worker/backend/cuda/cuda_status.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "worker/backend/cuda/device.h"
#include "worker/backend/device_status.h"

namespace jacserve::worker::cuda {
namespace {

std::string VisibleDevices() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? "is not set" : absl::StrCat("is '", visible, "'");
}

}  // namespace

absl::Status ToStatus(cudaError_t error, absl::string_view doing) {
  switch (error) {
    case cudaSuccess:
      return absl::OkStatus();
    case cudaErrorMemoryAllocation:
      return absl::ResourceExhaustedError(absl::StrCat("the GPU has too little memory for ", doing));
    case cudaErrorInsufficientDriver:
      return absl::FailedPreconditionError(kNoDriver);
    case cudaErrorNoDevice:
      return absl::FailedPreconditionError(absl::StrCat("the NVIDIA driver sees no GPU; CUDA_VISIBLE_DEVICES ",
                                                        VisibleDevices(), ". Or compute with --device cpu"));
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return absl::FailedPreconditionError(
          "this GPU is older than the kernels were compiled for (compute capability 8.0), or its driver is");
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
      return absl::InternalError(absl::StrCat("CUDA refused ", doing, ": ", cudaGetErrorString(error)));
    default:
      return DeviceLost(absl::StrCat("the GPU failed while ", doing, ": ", cudaGetErrorString(error),
                                     "; this worker must be replaced"));
  }
}

absl::Status ToStatus(cublasStatus_t error, absl::string_view doing) {
  switch (error) {
    case CUBLAS_STATUS_SUCCESS:
      return absl::OkStatus();
    case CUBLAS_STATUS_ALLOC_FAILED:
      return absl::ResourceExhaustedError(absl::StrCat("the GPU has too little memory for ", doing));
    case CUBLAS_STATUS_INVALID_VALUE:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return absl::InternalError(absl::StrCat("cuBLAS refused ", doing, ": ", cublasGetStatusString(error)));
    default:
      return DeviceLost(absl::StrCat("the GPU failed while ", doing, ": ", cublasGetStatusString(error),
                                     "; this worker must be replaced"));
  }
}

}  // namespace jacserve::worker::cuda
