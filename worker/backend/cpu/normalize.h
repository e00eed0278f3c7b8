// Vector kernels of normalisation, for one lane. The formulas are in worker/backend/backend.h.
// In and out: float or double in memory, any alignment. No data (nullptr): a gain of 1, a bias of 0.
#pragma once

#include "worker/backend/cpu/kernels.h"
#include "worker/backend/geometry.h"

namespace jacserve::worker::cpu {

#define X(T)                                                                                                    \
  void Affine(const Channels& c, const T* x, const T* gain, const T* bias, T* y);                               \
  void AddChannelSums(const Channels& c, const T* a, const T* b, T* sums); /* sums[c] += sum of a b */          \
  void Normalize(const NormGroups& g, const T* x, T* normal, T* rstd, T* mean);                                 \
  void NormalizePullback(const NormGroups& g, const Channels& c, const T* normal, const T* rstd, const T* gain, \
                         const T* ct_y, T* ct_x);
JACSERVE_CPU_TYPES(X)
#undef X

}  // namespace jacserve::worker::cpu
