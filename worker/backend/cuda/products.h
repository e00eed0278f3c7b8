// Batched products through cuBLAS. In: row-major shapes, operands over lanes, and groups within a lane.
// A product of a batch never depends on the others; what cuBLAS chooses for a batch follows from its shape, so callers
// make batches of sizes that are the program's own.
#pragma once

#include "worker/backend/backend.h"
#include "worker/backend/cuda/cuda_memory.h"
#include "worker/backend/cuda/operand.h"

namespace jacserve::worker::cuda {

// Group q of a lane begins `group` elements times q behind the lane.
template <class T>
struct GroupedOperand {
  Operand<T> lanes;
  int64_t group = 0;
};

// C = alpha op(A) op(B) + beta C for every lane and group, in this thread's stream.
template <class T>
void Multiply(const CudaMemory& memory, const GemmShape& shape, int64_t lanes, int64_t groups,
              GroupedOperand<const T> a, GroupedOperand<const T> b, GroupedOperand<T> c);

}  // namespace jacserve::worker::cuda
