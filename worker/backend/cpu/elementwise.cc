// Loops over the formulas are vectorised by the compiler for each target; what calls a function of the C library is
// written in Highway's vectors, from exp, log, log1p and tanh of its contrib/math.
#include "worker/backend/cpu/elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/backend/cpu/elementwise.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
// After highway.h.
#include "hwy/contrib/math/math-inl.h"

// Without a call in f or df.
#undef JACSERVE_CPU_UNARY
#define JACSERVE_CPU_UNARY(X) \
  X(Relu)                     \
  X(LeakyRelu)                \
  X(ThresholdedRelu)          \
  X(Clip)                     \
  X(HardSwish)                \
  X(Neg)                      \
  X(Reciprocal)               \
  X(Abs)                      \
  X(Softsign)
// Without a call in df.
#undef JACSERVE_CPU_UNARY_TERM
#define JACSERVE_CPU_UNARY_TERM(X) JACSERVE_CPU_UNARY(X) X(HardSigmoid) X(Tanh) X(Sigmoid) X(Exp) X(Log) X(Sqrt)
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

// exp, also above the range that contrib/math computes. NaN is put back by the loops.
template <class Tag, class V>
HWY_INLINE V ExpOf(Tag d, V x) {
  const V top = hn::Set(d, sizeof(hn::TFromD<Tag>) == 4 ? 100 : 720);  // the exponential is infinite before
  return hn::Exp(d, hn::IfThenElse(hn::Gt(x, top), top, x));
}

template <class Tag, class V>
HWY_INLINE V LogOf(Tag d, V x) {
  using T = hn::TFromD<Tag>;
  const V zero = hn::Zero(d), infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  V y = hn::IfThenElse(hn::Lt(x, infinity), hn::Log(d, x), infinity);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, std::numeric_limits<T>::quiet_NaN()), y);
}

template <class Tag, class V>
HWY_INLINE V SigmoidOf(Tag d, V x) {
  const V one = hn::Set(d, 1);
  return hn::Div(one, hn::Add(one, ExpOf(d, hn::Neg(x))));
}

// sum of c[k] x^k by Horner's rule.
template <class Tag, class V, size_t N>
HWY_INLINE V Polynomial(Tag d, V x, const float (&c)[N]) {
  V sum = hn::Set(d, c[N - 1]);
  for (size_t k = N - 1; k-- > 0;) sum = hn::MulAdd(sum, x, hn::Set(d, c[k]));
  return sum;
}

// erf of floats as an odd rational function on [-4, 4], beyond which it is 1 in float: the approximation of Eigen's
// generic_fast_erf (unsupported/Eigen/SpecialFunctions). Relative error below 4e-7.
template <class Tag, class V>
HWY_INLINE V ErfOf(Tag d, V x) {
  static constexpr float kNumerator[] = {-1.60960333262415e-02f, -2.95459980854025e-03f, -7.34990630326855e-04f,
                                         -5.69250639462346e-05f, -2.10102402082508e-06f, 2.77068142495902e-08f,
                                         -2.72614225801306e-10f};
  static constexpr float kDenominator[] = {-1.42647390514189e-02f, -7.37332916720468e-03f, -1.68282697438203e-03f,
                                           -2.13374055278905e-04f, -1.45660718464996e-05f};
  const V one = hn::Set(d, 1), four = hn::Set(d, 4);
  const V inside = hn::Max(hn::Neg(four), hn::Min(x, four));
  const V square = hn::Mul(inside, inside);
  const V y = hn::Div(hn::Mul(inside, Polynomial(d, square, kNumerator)), Polynomial(d, square, kDenominator));
  return hn::Max(hn::Neg(one), hn::Min(y, one));
}

// One struct per function of JACSERVE_CPU_MATH: F(d, x, alpha) and, for those whose derivative calls, D(d, x, alpha).
struct VectorExp {
  template <class Tag, class V>
  static HWY_INLINE V F(Tag d, V x, V) {
    return ExpOf(d, x);
  }
};
struct VectorLog {
  template <class Tag, class V>
  static HWY_INLINE V F(Tag d, V x, V) {
    return LogOf(d, x);
  }
};
struct VectorTanh {
  template <class Tag, class V>
  static HWY_INLINE V F(Tag d, V x, V) {
    return hn::Tanh(d, x);
  }
};
struct VectorSqrt {
  template <class Tag, class V>
  static HWY_INLINE V F(Tag, V x, V) {
    return hn::Sqrt(x);
  }
};
struct VectorSigmoid {
  template <class Tag, class V>
  static HWY_INLINE V F(Tag d, V x, V) {
    return SigmoidOf(d, x);
  }
};
struct VectorSoftplus {
  template <class Tag, class V>
  static HWY_INLINE V F(Tag d, V x, V) {
    return hn::Add(hn::Log1p(d, ExpOf(d, hn::Neg(hn::Abs(x)))), hn::Max(x, hn::Zero(d)));
  }
  template <class Tag, class V>
  static HWY_INLINE V D(Tag d, V x, V) {
    return SigmoidOf(d, x);
  }
};
struct VectorElu {
  template <class Tag, class V>
  static HWY_INLINE V F(Tag d, V x, V alpha) {
    const V zero = hn::Zero(d);
    return hn::IfThenElse(hn::Gt(x, zero), x, hn::Mul(alpha, hn::Expm1(d, hn::Min(x, zero))));
  }
  template <class Tag, class V>
  static HWY_INLINE V D(Tag d, V x, V alpha) {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1), hn::Mul(alpha, ExpOf(d, x)));
  }
};
struct VectorErf {
  template <class Tag, class V>
  static HWY_INLINE V F(Tag d, V x, V) {
    return ErfOf(d, x);
  }
  template <class Tag, class V>
  static HWY_INLINE V D(Tag d, V x, V) {
    return hn::Mul(hn::Set(d, 1.1283791670955126f), ExpOf(d, hn::Neg(hn::Mul(x, x))));
  }
};
struct VectorGelu {
  template <class Tag, class V>
  static HWY_INLINE V Half(Tag d, V x) {  // the normal distribution function
    const V half = hn::Set(d, 0.5f);
    return hn::MulAdd(half, ErfOf(d, hn::Mul(x, hn::Set(d, 0.70710678f))), half);
  }
  template <class Tag, class V>
  static HWY_INLINE V F(Tag d, V x, V) {
    return hn::Mul(x, Half(d, x));
  }
  template <class Tag, class V>
  static HWY_INLINE V D(Tag d, V x, V) {
    const V density = hn::Mul(hn::Set(d, 0.39894228f), ExpOf(d, hn::Mul(hn::Set(d, -0.5f), hn::Mul(x, x))));
    return hn::MulAdd(x, density, Half(d, x));
  }
};
struct VectorGeluTanh {
  template <class Tag, class V>
  static HWY_INLINE V Gate(Tag d, V x) {
    const V cubic = hn::MulAdd(hn::Mul(hn::Set(d, 0.044715f), x), hn::Mul(x, x), x);
    return SigmoidOf(d, hn::Mul(hn::Set(d, 1.5957691f), cubic));
  }
  template <class Tag, class V>
  static HWY_INLINE V F(Tag d, V x, V) {
    return hn::Mul(x, Gate(d, x));
  }
  template <class Tag, class V>
  static HWY_INLINE V D(Tag d, V x, V) {
    const V s = Gate(d, x), one = hn::Set(d, 1);
    const V slope = hn::Mul(hn::Set(d, 1.5957691f), hn::MulAdd(hn::Set(d, 0.134145f), hn::Mul(x, x), one));
    return hn::MulAdd(hn::Mul(hn::Mul(x, s), hn::Sub(one, s)), slope, s);
  }
};

// out = f(x), vector by vector; the last, shorter one goes through a whole vector, so that every number's steps are the
// same. kTerm: out = v * df(x).
template <class Function, bool kTerm, class T>
void MapVectors(int64_t n, T alpha, const T* x, const T* v, T* out) {
  const D<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto parameter = hn::Set(d, alpha);
  const auto step = [&](const T* from, const T* factor, T* to) {
    const auto value = hn::LoadU(d, from);
    if constexpr (kTerm) {
      const auto slope = Function::D(d, value, parameter);
      hn::StoreU(hn::Mul(hn::LoadU(d, factor), hn::IfThenElse(hn::Eq(value, value), slope, value)), d, to);
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
#define X(Name)                                                                                 \
  case UnaryFunction::k##Name:                                                                  \
    for (int64_t p = 0; p < n; ++p) out[p] = v[p] * Unary##Name<T>::D(x[p], y[p], alpha, beta); \
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
#define X(Name, formula, da_bits, da, db_bits, db)                                                       \
  case BinaryFunction::k##Name:                                                                          \
    for (int64_t p = 0; p < n; ++p) out[p] = v[p] * Binary##Name<T>::template D<side>(a[p], b[p], y[p]); \
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
