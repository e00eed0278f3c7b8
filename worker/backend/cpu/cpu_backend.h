// The fast float32 backend for CPUs: oneDNN products, Highway kernels chosen for the processor at run time.
#pragma once

#include <memory>

#include "worker/backend/backend.h"

namespace jacserve::worker {

std::unique_ptr<Backend> MakeCpuBackend();

}  // namespace jacserve::worker
