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

absl::StatusOr<int> CountDevices() {
  int count = 0;
  RETURN_IF_ERROR(cuda::ToStatus(cudaGetDeviceCount(&count), "counting GPUs"));
  if (count == 0) RETURN_IF_ERROR(cuda::ToStatus(cudaErrorNoDevice, "counting GPUs"));
  return count;
}

absl::StatusOr<CudaDevice> Describe(int index) {
  cudaDeviceProp properties = {};
  CudaDevice device;
  RETURN_IF_ERROR(cuda::ToStatus(cudaGetDeviceProperties(&properties, index), "asking for the GPU's properties"));
  RETURN_IF_ERROR(cuda::ToStatus(cudaDriverGetVersion(&device.driver_version), "asking for the driver's version"));
  device.name = properties.name;
  device.pci_bus_id =
      absl::StrFormat("%04x:%02x:%02x.0", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID);
  device.uuid = UuidText(properties.uuid);
  device.compute_major = properties.major;
  device.compute_minor = properties.minor;
  device.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  return device;
}

}  // namespace

absl::StatusOr<CudaDevice> FindCudaDevice() {
  ASSIGN_OR_RETURN(const int count, CountDevices());
  if (count > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("this process sees ", count,
                     " GPUs and computes on one; name it in CUDA_VISIBLE_DEVICES, and start a process for each"));
  }
  ASSIGN_OR_RETURN(CudaDevice device, Describe(0));
  if (device.compute_major < 8) {
    return absl::FailedPreconditionError(absl::StrCat(device.name, " has compute capability ", device.compute_major,
                                                      ".", device.compute_minor, "; 8.0 or newer is needed"));
  }
  size_t free = 0, total = 0;
  RETURN_IF_ERROR(cuda::ToStatus(cudaSetDevice(0), "opening the GPU"));
  RETURN_IF_ERROR(cuda::ToStatus(cudaMemGetInfo(&free, &total), "asking for the GPU's free memory"));
  device.free_bytes = static_cast<int64_t>(free);
  return device;
}

absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices() {
  ASSIGN_OR_RETURN(const int count, CountDevices());
  std::vector<CudaDevice> devices;
  for (int index = 0; index < count; ++index) {
    ASSIGN_OR_RETURN(CudaDevice device, Describe(index));
    devices.push_back(std::move(device));
  }
  return devices;
}

void ReleaseCudaDevice() { cudaDeviceReset(); }

}  // namespace jacserve::worker
