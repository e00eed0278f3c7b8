#include "worker/engine/devices.h"

#include "common/process.h"
#include "common/status.h"
#include "worker/backend/cuda/device.h"

namespace jacserve::worker {

absl::StatusOr<ComputeDevice> FindComputeDevice(BackendKind backend) {
  if (backend != BackendKind::kCuda) return ComputeDevice{ProcessorName()};
  ASSIGN_OR_RETURN(const CudaDevice gpu, FindCudaDevice());
  return ComputeDevice{gpu.name, gpu.free_bytes};
}

void ReleaseComputeDevice(BackendKind backend) {
  if (backend == BackendKind::kCuda) ReleaseCudaDevice();
}

}  // namespace jacserve::worker
