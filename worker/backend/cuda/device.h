// The GPU that a process computes on: the only one that it sees.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace jacserve::worker {

struct CudaDevice {
  std::string name;
  std::string uuid;  // GPU- and 8-4-4-4-12 hexadecimal digits
  int compute_major = 0, compute_minor = 0;
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;  // when it was asked
  int driver_version = 0;  // of CUDA, as 1000 * major + 10 * minor
};

// FailedPrecondition: no driver, no GPU, one that is too old, several of them, or built without CUDA; with what to do.
absl::StatusOr<CudaDevice> FindCudaDevice();

// Gives all memory of the GPU back, that of CUDA itself too. No backend may live.
void ReleaseCudaDevice();

}  // namespace jacserve::worker
