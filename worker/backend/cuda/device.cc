#include "worker/backend/cuda/device.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "worker/backend/cuda/cuda_status.h"

namespace jacserve::worker {
namespace {

std::string UuidText(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int k = 0; k < 16; ++k) {
    if (k == 0 || k == 4 || k == 6 || k == 8 || k == 10) text += '-';
    absl::StrAppendFormat(&text, "%02x", static_cast<unsigned char>(uuid.bytes[k]));
  }
  return text;
}

}  // namespace

absl::StatusOr<CudaDevice> FindCudaDevice() {
  int count = 0;
  RETURN_IF_ERROR(cuda::ToStatus(cudaGetDeviceCount(&count), "counting GPUs"));
  if (count == 0) RETURN_IF_ERROR(cuda::ToStatus(cudaErrorNoDevice, "counting GPUs"));
  if (count > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("this process sees ", count,
                     " GPUs and computes on one; name it in CUDA_VISIBLE_DEVICES, and start a process for each"));
  }
  cudaDeviceProp properties = {};
  CudaDevice device;
  size_t free = 0, total = 0;
  RETURN_IF_ERROR(cuda::ToStatus(cudaGetDeviceProperties(&properties, 0), "asking for the GPU's properties"));
  RETURN_IF_ERROR(cuda::ToStatus(cudaDriverGetVersion(&device.driver_version), "asking for the driver's version"));
  RETURN_IF_ERROR(cuda::ToStatus(cudaSetDevice(0), "opening the GPU"));
  RETURN_IF_ERROR(cuda::ToStatus(cudaMemGetInfo(&free, &total), "asking for the GPU's free memory"));
  device.name = properties.name;
  device.uuid = UuidText(properties.uuid);
  device.compute_major = properties.major;
  device.compute_minor = properties.minor;
  device.memory_bytes = static_cast<int64_t>(total);
  device.free_bytes = static_cast<int64_t>(free);
  if (device.compute_major < 8) {
    return absl::FailedPreconditionError(absl::StrCat(device.name, " has compute capability ", device.compute_major,
                                                      ".", device.compute_minor, "; 8.0 or newer is needed"));
  }
  return device;
}

void ReleaseCudaDevice() { cudaDeviceReset(); }

}  // namespace jacserve::worker
