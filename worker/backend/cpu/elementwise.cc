// Loops over the formulas are vectorised by the compiler for each target; what calls a function of the C library is
// written in Highway's vectors, from exp, log, log1p and tanh of its contrib/math.
#include "worker/backend/cpu/elementwise.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/backend/cpu/elementwise.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
// After highway.h.
#include "worker/backend/cpu/vector_math-inl.h"

// Without a call in f or df.
#undef JACSERVE_CPU_UNARY
#define JACSERVE_CPU_UNARY(X) \
  X(Relu)                     \
  X(LeakyRelu)                \
  X(ThresholdedRelu)          \
  X(Clip)                     \
  X(HardSigmoid)              \
  X(HardSwish)                \
  X(Neg)                      \
  X(Reciprocal)               \
  X(Abs)                      \
  X(Softsign)
// Without a call in df.
#undef JACSERVE_CPU_UNARY_TERM
#define JACSERVE_CPU_UNARY_TERM(X) JACSERVE_CPU_UNARY(X) X(Tanh) X(Sigmoid) X(Exp) X(Log) X(Sqrt)
// Where vectors pay: f and df as functions of a vector.
#undef JACSERVE_CPU_MATH
#define JACSERVE_CPU_MATH(X) X(Exp) X(Log) X(Tanh) X(Sigmoid) X(Softplus) X(Elu) X(Erf) X(Gelu) X(GeluTanh) X(Sqrt)
#undef JACSERVE_CPU_MATH_TERM
#define JACSERVE_CPU_MATH_TERM(X) X(Softplus) X(Elu) X(Erf) X(Gelu) X(GeluTanh)

HWY_BEFORE_NAMESPACE();
namespace jacserve::worker::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
template <class T>
using D = hn::ScalableTag<T>;

// out = f(x), vector by vector; the last, shorter one goes through a whole vector, so that every number's steps are the
// same. kTerm: out = Term(v, df(x)) of formulas.h.
template <class Function, bool kTerm, class T>
void MapVectors(int64_t n, T alpha, const T* x, const T* v, T* out) {
  const D<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto parameter = hn::Set(d, alpha);
  const auto step = [&](const T* from, const T* factor, T* to) {
    const auto value = hn::LoadU(d, from);
    if constexpr (kTerm) {
      const auto slope = hn::IfThenElse(hn::Eq(value, value), Function::D(d, value, parameter), value);
      const auto by = hn::LoadU(d, factor);
      const auto none = hn::Or(hn::Eq(by, hn::Zero(d)), hn::Eq(slope, hn::Zero(d)));
      hn::StoreU(hn::IfThenZeroElse(none, hn::Mul(by, slope)), d, to);
    } else {
      hn::StoreU(hn::IfThenElse(hn::Eq(value, value), Function::F(d, value, parameter), value), d, to);
    }
  };
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) step(x + p, kTerm ? v + p : nullptr, out + p);
  if (p == n) return;
  HWY_ALIGN T from[HWY_MAX_BYTES / sizeof(T)] = {}, factor[HWY_MAX_BYTES / sizeof(T)] = {},
                                   to[HWY_MAX_BYTES / sizeof(T)];
  std::copy(x + p, x + n, from);
  if (kTerm) std::copy(v + p, v + n, factor);
  step(from, factor, to);
  std::copy(to, to + (n - p), out + p);
}

// Those that are approximated for float only.
template <class T>
constexpr bool HasVector(UnaryFunction f) {
  return sizeof(T) == 4 || (f != UnaryFunction::kErf && f != UnaryFunction::kGelu);
}

template <class T>
bool UnaryForwardImpl(UnaryFunction f, T alpha, T beta, int64_t n, const T* x, T* y) {
  switch (f) {
#define X(Name)                                                                  \
  case UnaryFunction::k##Name:                                                   \
    for (int64_t p = 0; p < n; ++p) y[p] = Unary##Name<T>::F(x[p], alpha, beta); \
    return true;
    JACSERVE_CPU_UNARY(X)
#undef X
#define X(Name)                                                                  \
  case UnaryFunction::k##Name:                                                   \
    if constexpr (HasVector<T>(UnaryFunction::k##Name)) {                        \
      MapVectors<Vector##Name, false>(n, alpha, x, static_cast<T*>(nullptr), y); \
      return true;                                                               \
    }                                                                            \
    return false;
    JACSERVE_CPU_MATH(X)
#undef X
    default:
      return false;
  }
}

template <class T>
bool UnaryTermImpl(UnaryFunction f, T alpha, T beta, int64_t n, const T* x, const T* y, const T* v, T* out) {
  switch (f) {
#define X(Name)                                                                                      \
  case UnaryFunction::k##Name:                                                                       \
    for (int64_t p = 0; p < n; ++p) out[p] = Term(v[p], Unary##Name<T>::D(x[p], y[p], alpha, beta)); \
    return true;
    JACSERVE_CPU_UNARY_TERM(X)
#undef X
#define X(Name)                                            \
  case UnaryFunction::k##Name:                             \
    if constexpr (HasVector<T>(UnaryFunction::k##Name)) {  \
      MapVectors<Vector##Name, true>(n, alpha, x, v, out); \
      return true;                                         \
    }                                                      \
    return false;
    JACSERVE_CPU_MATH_TERM(X)
#undef X
    default:
      return false;
  }
}

template <class T>
void BinaryForwardImpl(BinaryFunction f, int64_t n, const T* a, const T* b, T* out) {
  switch (f) {
#define X(Name, formula, da_bits, da, db_bits, db)                           \
  case BinaryFunction::k##Name:                                              \
    for (int64_t p = 0; p < n; ++p) out[p] = Binary##Name<T>::F(a[p], b[p]); \
    return;
    JACSERVE_BINARY(X)
#undef X
  }
}

template <int side, class T>
void BinaryTermImpl(BinaryFunction f, int64_t n, const T* a, const T* b, const T* y, const T* v, T* out) {
  switch (f) {
#define X(Name, formula, da_bits, da, db_bits, db)                                                            \
  case BinaryFunction::k##Name:                                                                               \
    for (int64_t p = 0; p < n; ++p) out[p] = Term(v[p], Binary##Name<T>::template D<side>(a[p], b[p], y[p])); \
    return;
    JACSERVE_BINARY(X)
#undef X
  }
}

template <class T>
void SelectImpl(int64_t n, const T* c, const T* a, const T* b, T* out) {
  for (int64_t p = 0; p < n; ++p) {
    const T u = a[p], v = b[p];
    out[p] = c[p] != T(0) ? u : v;
  }
}

template <class T>
T LargestImpl(int64_t n, const T* x) {
  const D<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  T largest = x[0];
  int64_t p = 0;
  if (n >= lanes) {
    auto most = hn::LoadU(d, x);
    for (p = lanes; p + lanes <= n; p += lanes) most = hn::Max(most, hn::LoadU(d, x + p));
    largest = hn::GetLane(hn::MaxOfLanes(d, most));
  }
  for (; p < n; ++p) largest = std::max(largest, x[p]);
  return largest;
}

template <class T>
T ExpSumImpl(int64_t n, T shift, const T* x, T* y) {
  const D<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, shift);
  auto sum = hn::Zero(d);
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) {
    const auto from = hn::Sub(hn::LoadU(d, x + p), by);
    const auto value = hn::IfThenElse(hn::Eq(from, from), hn::Exp(d, from), from);  // NaN stays
    sum = hn::Add(sum, value);
    hn::StoreU(value, d, y + p);
  }
  T total = hn::GetLane(hn::SumOfLanes(d, sum));
  const hn::CappedTag<T, 1> one;
  for (; p < n; ++p) {
    const T from = x[p] - shift;
    const T value = from == from ? hn::GetLane(hn::Exp(one, hn::Set(one, from))) : from;
    total += value;
    y[p] = value;
  }
  return total;
}

template <class T>
T DotImpl(int64_t n, const T* x, const T* y) {
  const D<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) sum = hn::MulAdd(hn::LoadU(d, x + p), hn::LoadU(d, y + p), sum);
  T total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; p < n; ++p) total += x[p] * y[p];
  return total;
}

template <class T>
void ScaledDifferenceImpl(int64_t n, const T* y, T shift, const T* v, T* out) {
  for (int64_t p = 0; p < n; ++p) out[p] = y[p] * (v[p] - shift);
}

// Dispatch is by plain functions, one per type.
#define X(T)                                                                                                           \
  bool UnaryForward_##T(UnaryFunction f, T alpha, T beta, int64_t n, const T* x, T* y) {                               \
    return UnaryForwardImpl<T>(f, alpha, beta, n, x, y);                                                               \
  }                                                                                                                    \
  bool UnaryTerm_##T(UnaryFunction f, T alpha, T beta, int64_t n, const T* x, const T* y, const T* v, T* out) {        \
    return UnaryTermImpl<T>(f, alpha, beta, n, x, y, v, out);                                                          \
  }                                                                                                                    \
  void BinaryForward_##T(BinaryFunction f, int64_t n, const T* a, const T* b, T* out) {                                \
    BinaryForwardImpl<T>(f, n, a, b, out);                                                                             \
  }                                                                                                                    \
  void BinaryTerm_##T(BinaryFunction f, int side, int64_t n, const T* a, const T* b, const T* y, const T* v, T* out) { \
    side == 0 ? BinaryTermImpl<0, T>(f, n, a, b, y, v, out) : BinaryTermImpl<1, T>(f, n, a, b, y, v, out);             \
  }                                                                                                                    \
  void Select_##T(int64_t n, const T* c, const T* a, const T* b, T* out) { SelectImpl<T>(n, c, a, b, out); }           \
  T Largest_##T(int64_t n, const T* x) { return LargestImpl<T>(n, x); }                                                \
  T ExpSum_##T(int64_t n, T shift, const T* x, T* y) { return ExpSumImpl<T>(n, shift, x, y); }                         \
  T Dot_##T(int64_t n, const T* x, const T* y) { return DotImpl<T>(n, x, y); }                                         \
  void ScaledDifference_##T(int64_t n, const T* y, T shift, const T* v, T* out) {                                      \
    ScaledDifferenceImpl<T>(n, y, shift, v, out);                                                                      \
  }
JACSERVE_CPU_TYPES(X)
#undef X

}  // namespace HWY_NAMESPACE
}  // namespace jacserve::worker::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace jacserve::worker::cpu {

#define X(T)                                                                                                       \
  HWY_EXPORT(UnaryForward_##T);                                                                                    \
  HWY_EXPORT(UnaryTerm_##T);                                                                                       \
  HWY_EXPORT(BinaryForward_##T);                                                                                   \
  HWY_EXPORT(BinaryTerm_##T);                                                                                      \
  HWY_EXPORT(Select_##T);                                                                                          \
  HWY_EXPORT(Largest_##T);                                                                                         \
  HWY_EXPORT(ExpSum_##T);                                                                                          \
  HWY_EXPORT(Dot_##T);                                                                                             \
  HWY_EXPORT(ScaledDifference_##T);                                                                                \
  bool UnaryForward(UnaryFunction f, T alpha, T beta, int64_t n, const T* x, T* y) {                               \
    return HWY_DYNAMIC_DISPATCH(UnaryForward_##T)(f, alpha, beta, n, x, y);                                        \
  }                                                                                                                \
  bool UnaryTerm(UnaryFunction f, T alpha, T beta, int64_t n, const T* x, const T* y, const T* v, T* out) {        \
    return HWY_DYNAMIC_DISPATCH(UnaryTerm_##T)(f, alpha, beta, n, x, y, v, out);                                   \
  }                                                                                                                \
  void BinaryForward(BinaryFunction f, int64_t n, const T* a, const T* b, T* out) {                                \
    HWY_DYNAMIC_DISPATCH(BinaryForward_##T)(f, n, a, b, out);                                                      \
  }                                                                                                                \
  void BinaryTerm(BinaryFunction f, int side, int64_t n, const T* a, const T* b, const T* y, const T* v, T* out) { \
    HWY_DYNAMIC_DISPATCH(BinaryTerm_##T)(f, side, n, a, b, y, v, out);                                             \
  }                                                                                                                \
  void Select(int64_t n, const T* c, const T* a, const T* b, T* out) {                                             \
    HWY_DYNAMIC_DISPATCH(Select_##T)(n, c, a, b, out);                                                             \
  }                                                                                                                \
  T Largest(int64_t n, const T* x) { return HWY_DYNAMIC_DISPATCH(Largest_##T)(n, x); }                             \
  T ExpSum(int64_t n, T shift, const T* x, T* y) { return HWY_DYNAMIC_DISPATCH(ExpSum_##T)(n, shift, x, y); }      \
  T Dot(int64_t n, const T* x, const T* y) { return HWY_DYNAMIC_DISPATCH(Dot_##T)(n, x, y); }                      \
  void ScaledDifference(int64_t n, const T* y, T shift, const T* v, T* out) {                                      \
    HWY_DYNAMIC_DISPATCH(ScaledDifference_##T)(n, y, shift, v, out);                                               \
  }
JACSERVE_CPU_TYPES(X)
#undef X

}  // namespace jacserve::worker::cpu
#endif
