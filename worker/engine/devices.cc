#include "worker/engine/devices.h"

#include "absl/strings/str_cat.h"
#include "common/process.h"
#include "common/status.h"
#include "worker/backend/cuda/device.h"

namespace jacserve::worker {
namespace {

ComputeDevice Described(const CudaDevice& gpu) {
  const auto version = [](int major, int minor) { return absl::StrCat(major, ".", minor); };
  return {gpu.name, GpuFacts{.uuid = gpu.uuid,
                             .pci_bus_id = gpu.pci_bus_id,
                             .compute_capability = version(gpu.compute_major, gpu.compute_minor),
                             .driver = version(gpu.driver_version / 1000, gpu.driver_version % 1000 / 10),
                             .memory_bytes = gpu.memory_bytes,
                             .free_bytes = gpu.free_bytes}};
}

}  // namespace

absl::StatusOr<ComputeDevice> FindComputeDevice(BackendKind backend) {
  if (backend != BackendKind::kCuda) return ComputeDevice{ProcessorName(), std::nullopt};
  ASSIGN_OR_RETURN(const CudaDevice gpu, FindCudaDevice());
  return Described(gpu);
}

absl::StatusOr<std::vector<ComputeDevice>> ListGpus() {
  ASSIGN_OR_RETURN(const std::vector<CudaDevice> gpus, ListCudaDevices());
  std::vector<ComputeDevice> devices;
  for (const CudaDevice& gpu : gpus) devices.push_back(Described(gpu));
  return devices;
}

void ReleaseComputeDevice(BackendKind backend) {
  if (backend == BackendKind::kCuda) ReleaseCudaDevice();
}

}  // namespace jacserve::worker
