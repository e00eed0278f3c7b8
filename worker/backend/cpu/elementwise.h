// Elementwise kernels over stretches of memory, compiled for several instruction sets and chosen when first called.
// In and out: float or double, any alignment. A number's result does not depend on where in a stretch it stands.
#pragma once

#include <cstdint>

#include "worker/backend/cpu/kernels.h"
#include "worker/backend/formulas.h"

namespace jacserve::worker::cpu {

#define X(T)                                                                                                      \
  /* y = f(x). false: there is no kernel for f. */                                                                \
  bool UnaryForward(UnaryFunction f, T alpha, T beta, int64_t n, const T* x, T* y);                               \
  /* out = v * df(x, y). false: there is no kernel for f. */                                                      \
  bool UnaryTerm(UnaryFunction f, T alpha, T beta, int64_t n, const T* x, const T* y, const T* v, T* out);        \
  /* out = f(a, b). */                                                                                            \
  void BinaryForward(BinaryFunction f, int64_t n, const T* a, const T* b, T* out);                                \
  /* out = v * df(a, b, y). What the derivative does not read may be any memory. */                               \
  void BinaryTerm(BinaryFunction f, int side, int64_t n, const T* a, const T* b, const T* y, const T* v, T* out); \
  /* out = c is not 0 ? a : b. */                                                                                 \
  void Select(int64_t n, const T* c, const T* a, const T* b, T* out);                                             \
  /* The largest of n > 0 numbers; sum of exp(x - shift), with exp(x - shift) in y. */                            \
  T Largest(int64_t n, const T* x);                                                                               \
  T ExpSum(int64_t n, T shift, const T* x, T* y);                                                                 \
  T Dot(int64_t n, const T* x, const T* y);                                                                       \
  void ScaledDifference(int64_t n, const T* y, T shift, const T* v, T* out); /* out = y (v - shift) */
JACSERVE_CPU_TYPES(X)
#undef X

}  // namespace jacserve::worker::cpu
