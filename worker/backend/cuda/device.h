// The GPU that a process computes on: the only one that it sees.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace jacserve::worker {

struct CudaDevice {
  std::string name;
  std::string pci_bus_id;  // 0000:65:00.0
  std::string uuid;        // GPU- and 8-4-4-4-12 hexadecimal digits
  int compute_major = 0, compute_minor = 0;
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;  // when it was asked
  int driver_version = 0;  // of CUDA, as 1000 * major + 10 * minor
};

// What is said where no driver answers.
constexpr char kNoDriver[] =
    "there is no NVIDIA driver, or it is older than CUDA 13 needs; install a current one (nvidia-smi shows it), or "
    "compute with --device cpu";

// FailedPrecondition: no driver, no GPU, one that is too old, several of them, or built without CUDA; with what to do.
absl::StatusOr<CudaDevice> FindCudaDevice();

// All that this process sees, however old, without opening one: free_bytes is 0. FailedPrecondition: no driver, no GPU,
// or built without CUDA.
absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices();

// Gives all memory of the GPU back, that of CUDA itself too. No backend may live.
void ReleaseCudaDevice();

}  // namespace jacserve::worker
