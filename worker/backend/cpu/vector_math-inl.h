// exp, log, erf and the activations made of them, as functions of a Highway vector; compiled once per instruction set.
// In: a tag and a vector. Out: a vector. NaN may come out as a number: the loops that call put it back.
// The guard lets each target include it once, as in Highway's own contrib headers.
#if defined(JACSERVE_CPU_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef JACSERVE_CPU_VECTOR_MATH_INL_H_
#undef JACSERVE_CPU_VECTOR_MATH_INL_H_
#else
#define JACSERVE_CPU_VECTOR_MATH_INL_H_
#endif

#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace jacserve::worker::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// exp, also above the range that contrib/math computes.
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
    return hn::Mul(hn::Set(d, hn::TFromD<Tag>(1.1283791670955126)), ExpOf(d, hn::Neg(hn::Mul(x, x))));
  }
};
struct VectorGelu {
  template <class Tag, class V>
  static HWY_INLINE V Half(Tag d, V x) {  // the normal distribution function
    const V half = hn::Set(d, 0.5f);
    return hn::MulAdd(half, ErfOf(d, hn::Mul(x, hn::Set(d, hn::TFromD<Tag>(0.7071067811865476)))), half);
  }
  template <class Tag, class V>
  static HWY_INLINE V F(Tag d, V x, V) {
    return hn::Mul(x, Half(d, x));
  }
  template <class Tag, class V>
  static HWY_INLINE V D(Tag d, V x, V) {
    const V density =
        hn::Mul(hn::Set(d, hn::TFromD<Tag>(0.3989422804014327)), ExpOf(d, hn::Mul(hn::Set(d, -0.5f), hn::Mul(x, x))));
    return hn::MulAdd(x, density, Half(d, x));
  }
};
struct VectorGeluTanh {
  template <class Tag, class V>
  static HWY_INLINE V Gate(Tag d, V x) {
    const V cubic = hn::MulAdd(hn::Mul(hn::Set(d, hn::TFromD<Tag>(0.044715)), x), hn::Mul(x, x), x);
    return SigmoidOf(d, hn::Mul(hn::Set(d, hn::TFromD<Tag>(1.5957691216057308)), cubic));
  }
  template <class Tag, class V>
  static HWY_INLINE V F(Tag d, V x, V) {
    return hn::Mul(x, Gate(d, x));
  }
  template <class Tag, class V>
  static HWY_INLINE V D(Tag d, V x, V) {
    const V s = Gate(d, x), one = hn::Set(d, 1);
    const V slope = hn::Mul(hn::Set(d, hn::TFromD<Tag>(1.5957691216057308)),
                            hn::MulAdd(hn::Set(d, hn::TFromD<Tag>(0.134145)), hn::Mul(x, x), one));
    return hn::MulAdd(hn::Mul(hn::Mul(x, s), hn::Sub(one, s)), slope, s);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace jacserve::worker::cpu
HWY_AFTER_NAMESPACE();

#endif  // JACSERVE_CPU_VECTOR_MATH_INL_H_
