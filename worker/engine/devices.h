// What backends compute on, for programs: names for people, and the memory that there is to share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/engine.h"

namespace jacserve::worker {

constexpr std::string_view NameOf(BackendKind backend) {
  switch (backend) {
    case BackendKind::kReference:
      return "reference";
    case BackendKind::kCpu:
      return "cpu";
    case BackendKind::kCuda:
      return "cuda";
  }
  return "";
}

struct GpuFacts {
  std::string uuid;                // as CUDA_VISIBLE_DEVICES takes it
  std::string pci_bus_id;          // 0000:65:00.0
  std::string compute_capability;  // 8.6
  std::string driver;              // the newest CUDA that it runs, 13.0
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;  // now; 0: not asked
};

struct ComputeDevice {
  std::string name;             // of the processor or the GPU
  std::optional<GpuFacts> gpu;  // none: the backend computes in the host's memory
};

// FailedPrecondition: there is none for this backend, with what is missing.
absl::StatusOr<ComputeDevice> FindComputeDevice(BackendKind backend);

// Every GPU that this process sees. FailedPrecondition: none, with what is missing.
absl::StatusOr<std::vector<ComputeDevice>> ListGpus();

// Gives a GPU's memory back to other processes once no engine lives; the next engine takes it anew.
void ReleaseComputeDevice(BackendKind backend);

}  // namespace jacserve::worker
