// Vector kernels, compiled for several instruction sets and chosen for this processor when first called.
// In and out: float or double in memory, any alignment unless said.
#pragma once

#include <cstdint>

namespace jacserve::worker::cpu {

// X(T): the declarations and dispatchers for each type.
#define JACSERVE_CPU_TYPES(X) X(float) X(double)

#define X(T)                                                                                                         \
  /* out [m, n] = (or +=) sum over k < terms (1 or 2) of a[k] [m] outer b[k] [n]. Written once, past the caches when \
   */                                                                                                                \
  /* `stream` and the rows of out are aligned. */                                                                    \
  void OuterSum(int terms, int64_t m, int64_t n, const T* const* a, const T* const* b, T* out, bool accumulate,      \
                bool stream);                                                                                        \
  void AddScaled(int64_t n, T scale, const T* x, T* y); /* y += scale x */                                           \
  void Scale(int64_t n, T scale, const T* x, T* y);     /* y = scale x */                                            \
  T Sum(int64_t n, const T* x);                                                                                      \
  /* ct_x = ct_y where y > 0, else 0 */                                                                              \
  void ReluPullback(int64_t n, const T* y, const T* ct_y, T* ct_x);
JACSERVE_CPU_TYPES(X)
#undef X

}  // namespace jacserve::worker::cpu
