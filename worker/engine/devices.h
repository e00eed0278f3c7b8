// What backends compute on, for programs: names for people, and the memory that there is to share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

struct ComputeDevice {
  std::string name;            // of the processor or the GPU
  int64_t gpu_free_bytes = 0;  // of a GPU's memory, now; 0: the backend computes in the host's
};

// FailedPrecondition: there is none for this backend, with what is missing.
absl::StatusOr<ComputeDevice> FindComputeDevice(BackendKind backend);

// Gives a GPU's memory back to other processes once no engine lives; the next engine takes it anew.
void ReleaseComputeDevice(BackendKind backend);

}  // namespace jacserve::worker
