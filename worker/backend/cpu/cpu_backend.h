// The fast backend for CPUs: products by oneDNN (float32) and OpenBLAS (float64, which oneDNN lacks), Highway kernels
// chosen for the processor at run time.
#pragma once

#include <memory>

#include "worker/backend/backend.h"

namespace jacserve::worker {

std::unique_ptr<Backend> MakeCpuBackend(DType dtype);

}  // namespace jacserve::worker
