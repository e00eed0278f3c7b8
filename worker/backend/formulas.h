// Elementwise functions and their derivatives, once, as formulas; every backend's kernels are generated from these
// lists. f(x) is the function, df(x, y) its derivative at x where y = f(x). alpha, beta are the operator's attributes.
// Reads: what the derivative reads; what it does not read is not kept between forward and pullback.
// Truth values are 0 and 1.
#pragma once

#include <cmath>

// What a device's compiler must compile for the device too.
#ifdef __CUDACC__
#define JACSERVE_EVERYWHERE __host__ __device__
#else
#define JACSERVE_EVERYWHERE
#endif

namespace jacserve::worker {

struct UnaryParams {
  double alpha = 0.0;
  double beta = 0.0;
};

// kSaved: a derivative in x that costs as much as the function; it is computed with it and kept in place of x.
// kFlat: the derivative is 0 everywhere.
enum class Reads { kNothing, kX, kY, kSaved, kFlat };

// The sigmoid s for which the tanh form of Gelu is x s: s = sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)).
template <class T>
JACSERVE_EVERYWHERE T GeluGate(T x) {
  return T(1) / (T(1) + std::exp(T(-1.5957691216057308) * (x + T(0.044715) * x * x * x)));
}
// d/dx of x s = s + x s (1 - s) u', u' = 2 sqrt(2 / pi) (1 + 3 * 0.044715 x^2).
template <class T>
JACSERVE_EVERYWHERE T GeluGateSlope(T x) {
  const T s = GeluGate(x);
  return s + x * s * (T(1) - s) * T(1.5957691216057308) * (T(1) + T(0.134145) * x * x);
}

// The smaller of two; NaN in x stays.
template <class T>
JACSERVE_EVERYWHERE T AtMost(T x, T most) {
  return x > most ? most : x;
}

// A term of a derivative: v, a cotangent or a tangent, times a slope. It is 0 where either is 0, even when the other is
// infinite or no number: what does not reach an output takes no part in its derivative, and neither does a branch that
// is flat. So sqrt(relu(x)) and where(x > 0, log(x), 0) have zeros at x = 0. On every backend, for every formula here.
template <class T>
JACSERVE_EVERYWHERE T Term(T v, T slope) {
  const T term = v * slope;
  return (v == T(0)) | (slope == T(0)) ? T(0) : term;
}

// JACSERVE_UNARY(X): X(Name, Reads, f, df) with x, y, alpha and beta in scope, all of type T.
#define JACSERVE_UNARY(X)                                                                                        \
  X(Relu, kY, x<T(0) ? T(0) : x, y> T(0) ? T(1) : T(0))                                                          \
  X(LeakyRelu, kX, x > T(0) ? x : alpha * x, x > T(0) ? T(1) : alpha)                                            \
  X(ThresholdedRelu, kX, x > alpha ? x : T(0), x > alpha ? T(1) : T(0))                                          \
  X(Elu, kSaved, x > T(0) ? x : alpha * std::expm1(x), x > T(0) ? T(1) : alpha * std::exp(x))                    \
  X(Selu, kSaved, beta*(x > T(0) ? x : alpha * std::expm1(x)), beta*(x > T(0) ? T(1) : alpha * std::exp(x)))     \
  X(Clip, kX, AtMost(x < alpha ? alpha : x, beta), x > alpha && x < beta ? T(1) : T(0))                          \
  X(Shrink, kX, x < -alpha ? x + beta : (x > alpha ? x - beta : T(0)), x < -alpha || x > alpha ? T(1) : T(0))    \
  X(HardSigmoid, kY, alpha* x + beta <= T(0) ? T(0) : (alpha * x + beta >= T(1) ? T(1) : alpha * x + beta),      \
    y > T(0) && y < T(1) ? alpha : T(0))                                                                         \
  X(HardSwish, kX, x <= T(-3) ? T(0) : (x >= T(3) ? x : x * (x / T(6) + T(0.5))),                                \
    x <= T(-3) ? T(0) : (x >= T(3) ? T(1) : x / T(3) + T(0.5)))                                                  \
  X(Tanh, kY, std::tanh(x), T(1) - y * y)                                                                        \
  X(Sigmoid, kY, T(1) / (T(1) + std::exp(-x)), y * (T(1) - y))                                                   \
  X(Softplus, kSaved, std::log1p(std::exp(-std::fabs(x))) + (x > T(0) ? x : T(0)), T(1) / (T(1) + std::exp(-x))) \
  X(Gelu, kSaved, T(0.5) * x * std::erfc(x * T(-0.7071067811865476)),                                            \
    T(0.5) * std::erfc(x * T(-0.7071067811865476)) + x * T(0.3989422804014327) * std::exp(T(-0.5) * x * x))      \
  X(GeluTanh, kSaved, x* GeluGate(x), GeluGateSlope(x))                                                          \
  X(Neg, kNothing, -x, T(-1))                                                                                    \
  X(Exp, kY, std::exp(x), y)                                                                                     \
  X(Log, kX, std::log(x), T(1) / x)                                                                              \
  X(Sqrt, kY, std::sqrt(x), T(1) / (T(2) * y))                                                                   \
  X(Reciprocal, kY, T(1) / x, -y * y)                                                                            \
  X(Abs, kX, std::fabs(x), x > T(0) ? T(1) : (x < T(0) ? T(-1) : T(0)))                                          \
  X(Sin, kSaved, std::sin(x), std::cos(x))                                                                       \
  X(Cos, kSaved, std::cos(x), -std::sin(x))                                                                      \
  X(Tan, kY, std::tan(x), T(1) + y * y)                                                                          \
  X(Asin, kX, std::asin(x), T(1) / std::sqrt(T(1) - x * x))                                                      \
  X(Acos, kX, std::acos(x), T(-1) / std::sqrt(T(1) - x * x))                                                     \
  X(Atan, kX, std::atan(x), T(1) / (T(1) + x * x))                                                               \
  X(Sinh, kSaved, std::sinh(x), std::cosh(x))                                                                    \
  X(Cosh, kSaved, std::cosh(x), std::sinh(x))                                                                    \
  X(Asinh, kX, std::asinh(x), T(1) / std::sqrt(x * x + T(1)))                                                    \
  X(Acosh, kX, std::acosh(x), T(1) / (std::sqrt(x - T(1)) * std::sqrt(x + T(1))))                                \
  X(Atanh, kX, std::atanh(x), T(1) / ((T(1) - x) * (T(1) + x)))                                                  \
  X(Erf, kSaved, std::erf(x), T(1.1283791670955126) * std::exp(-x * x))                                          \
  X(Softsign, kX, x / (T(1) + std::fabs(x)), T(1) / ((T(1) + std::fabs(x)) * (T(1) + std::fabs(x))))             \
  X(Floor, kFlat, std::floor(x), T(0))                                                                           \
  X(Ceil, kFlat, std::ceil(x), T(0))                                                                             \
  X(Round, kFlat, std::nearbyint(x), T(0)) /* halves to even */                                                  \
  X(Trunc, kFlat, std::trunc(x), T(0))                                                                           \
  X(Sign, kFlat, x > T(0) ? T(1) : (x < T(0) ? T(-1) : T(0)), T(0))                                              \
  X(ToBool, kFlat, x != T(0) ? T(1) : T(0), T(0))                                                                \
  X(Not, kFlat, x != T(0) ? T(0) : T(1), T(0))                                                                   \
  X(IsNaN, kFlat, x != x ? T(1) : T(0), T(0))                                                                    \
  /* alpha: is minus infinity asked for, beta: plus infinity */                                                  \
  X(IsInf, kFlat, std::isinf(x) && (x < T(0) ? alpha : beta) != T(0) ? T(1) : T(0), T(0))

enum class UnaryFunction {
#define X(Name, reads, f, df) k##Name,
  JACSERVE_UNARY(X)
#undef X
};

// One struct per function: UnaryRelu<T>::F(x, alpha, beta), UnaryRelu<T>::D(x, y, alpha, beta).
#define X(Name, reads, f, df)                                                                                 \
  template <class T>                                                                                          \
  struct Unary##Name {                                                                                        \
    JACSERVE_EVERYWHERE static T F([[maybe_unused]] T x, [[maybe_unused]] T alpha, [[maybe_unused]] T beta) { \
      return f;                                                                                               \
    }                                                                                                         \
    JACSERVE_EVERYWHERE static T D([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T alpha,      \
                                   [[maybe_unused]] T beta) {                                                 \
      return df;                                                                                              \
    }                                                                                                         \
  };
JACSERVE_UNARY(X)
#undef X

constexpr Reads DerivativeReads(UnaryFunction function) {
  switch (function) {
#define X(Name, reads, f, df)  \
  case UnaryFunction::k##Name: \
    return Reads::reads;
    JACSERVE_UNARY(X)
#undef X
  }
  return Reads::kX;
}

// What a derivative of f(a, b) = y reads, as bits. kFlatIn: it is 0 everywhere.
constexpr int kReadsNone = 0, kReadsA = 1, kReadsB = 2, kReadsY = 4, kFlatIn = 8;

// JACSERVE_BINARY(X): X(Name, f, bits of da, da, bits of db, db) with a, b and y in scope, all of type T.
// Ties of Max and Min go to a. IfTrue and IfFalse select b by a.
#define JACSERVE_BINARY(X)                                                                                           \
  X(Add, a + b, kReadsNone, T(1), kReadsNone, T(1))                                                                  \
  X(Sub, a - b, kReadsNone, T(1), kReadsNone, T(-1))                                                                 \
  X(Mul, a* b, kReadsB, b, kReadsA, a)                                                                               \
  X(Div, a / b, kReadsB, T(1) / b, kReadsB | kReadsY, -y / b)                                                        \
  X(DivOrZero, b == T(0) ? T(0) : a / b, kReadsB, b == T(0) ? T(0) : T(1) / b, kReadsB | kReadsY,                    \
    b == T(0) ? T(0) : -y / b)                                                                                       \
  X(Pow, std::pow(a, b), kReadsA | kReadsB, b == T(0) ? T(0) : b * std::pow(a, b - T(1)), kReadsA | kReadsY,         \
    a > T(0) ? y * std::log(a) : T(0))                                                                               \
  X(Max, a >= b || a != a ? a : b, kReadsA | kReadsB, a >= b ? T(1) : T(0), kReadsA | kReadsB, a >= b ? T(0) : T(1)) \
  X(Min, a <= b || a != a ? a : b, kReadsA | kReadsB, a <= b ? T(1) : T(0), kReadsA | kReadsB, a <= b ? T(0) : T(1)) \
  X(PRelu, a<T(0) ? a * b : a, kReadsA | kReadsB, a> T(0) ? T(1) : b, kReadsA, a < T(0) ? a : T(0))                  \
  X(FMod, std::fmod(a, b), kReadsNone, T(1), kReadsA | kReadsB, -std::trunc(a / b))                                  \
  X(FloorMod, FloorMod(a, b), kReadsNone, T(1), kReadsA | kReadsB, -std::floor(a / b)) /* the sign of b */           \
  X(IntMod, FloorMod(a, b), kFlatIn, T(0), kFlatIn, T(0))                                                            \
  X(IntDiv, std::trunc(a / b), kFlatIn, T(0), kFlatIn, T(0))                                                         \
  X(IntPow, std::trunc(std::pow(a, b)), kFlatIn, T(0), kFlatIn, T(0))                                                \
  X(Less, a < b ? T(1) : T(0), kFlatIn, T(0), kFlatIn, T(0))                                                         \
  X(LessOrEqual, a <= b ? T(1) : T(0), kFlatIn, T(0), kFlatIn, T(0))                                                 \
  X(Greater, a > b ? T(1) : T(0), kFlatIn, T(0), kFlatIn, T(0))                                                      \
  X(GreaterOrEqual, a >= b ? T(1) : T(0), kFlatIn, T(0), kFlatIn, T(0))                                              \
  X(Equal, a == b ? T(1) : T(0), kFlatIn, T(0), kFlatIn, T(0))                                                       \
  X(And, a != T(0) && b != T(0) ? T(1) : T(0), kFlatIn, T(0), kFlatIn, T(0))                                         \
  X(Or, a != T(0) || b != T(0) ? T(1) : T(0), kFlatIn, T(0), kFlatIn, T(0))                                          \
  X(Xor, (a != T(0)) != (b != T(0)) ? T(1) : T(0), kFlatIn, T(0), kFlatIn, T(0))                                     \
  X(IfTrue, a != T(0) ? b : T(0), kFlatIn, T(0), kReadsA, a != T(0) ? T(1) : T(0))                                   \
  X(IfFalse, a != T(0) ? T(0) : b, kFlatIn, T(0), kReadsA, a != T(0) ? T(0) : T(1))

template <class T>
JACSERVE_EVERYWHERE T FloorMod(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != T(0) && (rest < T(0)) != (b < T(0)) ? rest + b : rest;
}

enum class BinaryFunction {
#define X(Name, f, da_bits, da, db_bits, db) k##Name,
  JACSERVE_BINARY(X)
#undef X
};

// One struct per function: BinaryMul<T>::F(a, b), BinaryMul<T>::D<side>(a, b, y), side 0 for a and 1 for b.
#define X(Name, f, da_bits, da, db_bits, db)                                                           \
  template <class T>                                                                                   \
  struct Binary##Name {                                                                                \
    JACSERVE_EVERYWHERE static T F(T a, T b) { return f; }                                             \
    template <int side>                                                                                \
    JACSERVE_EVERYWHERE static T D([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T y) { \
      return side == 0 ? T(da) : T(db);                                                                \
    }                                                                                                  \
  };
JACSERVE_BINARY(X)
#undef X

// Bits of the derivative with respect to a (side 0) or b (side 1).
constexpr int DerivativeReads(BinaryFunction function, int side) {
  switch (function) {
#define X(Name, f, da_bits, da, db_bits, db) \
  case BinaryFunction::k##Name:              \
    return side == 0 ? (da_bits) : (db_bits);
    JACSERVE_BINARY(X)
#undef X
  }
  return kFlatIn;
}

}  // namespace jacserve::worker
