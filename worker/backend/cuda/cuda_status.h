// Errors of the CUDA runtime and of cuBLAS as absl::Status; nowhere else are they translated.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace jacserve::worker::cuda {

// OK, or what went wrong while `doing`. ResourceExhausted: the device's memory does not suffice. FailedPrecondition:
// there is no usable driver or GPU, with what to do. Otherwise DeviceLost: an error of CUDA stays with the process.
absl::Status ToStatus(cudaError_t error, absl::string_view doing);
absl::Status ToStatus(cublasStatus_t error, absl::string_view doing);

}  // namespace jacserve::worker::cuda
