// What the CUDA module, libjacserve_cuda.so, gives to the program that loads it: the functions of cuda_backend.h and
// device.h by names that the loader finds. Both are of one build.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/backend/cuda/cuda_backend.h"

namespace jacserve::worker::cuda {

struct Module {
  absl::StatusOr<CudaDevice> (*find_device)();
  absl::StatusOr<std::vector<CudaDevice>> (*list_devices)();
  absl::StatusOr<std::unique_ptr<Backend>> (*make_backend)(DType dtype, bool tf32);
  void (*release_device)();
};

using GetModule = const Module* (*)();
constexpr char kModuleFile[] = "libjacserve_cuda.so";
constexpr char kGetModule[] = "jacserve_cuda_module";

}  // namespace jacserve::worker::cuda
