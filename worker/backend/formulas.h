// Elementwise functions and their derivatives, once, as formulas; every backend's kernels are generated from this list.
// f(x) is the function, df(x, y) its derivative at x where y = f(x). alpha, beta are the operator's attributes.
// Reads: which of x and y the derivative reads; what it does not read is not kept between forward and pullback.
#pragma once

#include <cmath>

namespace jacserve::worker {

struct UnaryParams {
  double alpha = 0.0;
  double beta = 0.0;
};

enum class Reads { kNothing, kX, kY };

// JACSERVE_UNARY(X): X(Name, Reads, f, df) with x, y, alpha and beta in scope, all of type T.
#define JACSERVE_UNARY(X)                                                                                    \
  X(Relu, kY, x > T(0) ? x : T(0), y > T(0) ? T(1) : T(0))                                                   \
  X(LeakyRelu, kX, x >= T(0) ? x : alpha * x, x >= T(0) ? T(1) : alpha)                                      \
  X(Elu, kX, x > T(0) ? x : alpha * std::expm1(x), x > T(0) ? T(1) : alpha * std::exp(x))                    \
  X(Tanh, kY, std::tanh(x), T(1) - y * y)                                                                    \
  X(Sigmoid, kY, T(1) / (T(1) + std::exp(-x)), y * (T(1) - y))                                               \
  X(Softplus, kX, std::log1p(std::exp(-std::fabs(x))) + (x > T(0) ? x : T(0)), T(1) / (T(1) + std::exp(-x))) \
  X(Neg, kNothing, -x, T(-1))                                                                                \
  X(Exp, kY, std::exp(x), y)                                                                                 \
  X(Log, kX, std::log(x), T(1) / x)                                                                          \
  X(Sqrt, kY, std::sqrt(x), T(1) / (T(2) * y))                                                               \
  X(Reciprocal, kY, T(1) / x, -y * y)                                                                        \
  X(Abs, kX, std::fabs(x), x > T(0) ? T(1) : (x < T(0) ? T(-1) : T(0)))                                      \
  X(Sin, kX, std::sin(x), std::cos(x))                                                                       \
  X(Cos, kX, std::cos(x), -std::sin(x))                                                                      \
  X(Erf, kX, std::erf(x), T(1.1283791670955126) * std::exp(-x * x))                                          \
  X(Softsign, kX, x / (T(1) + std::fabs(x)), T(1) / ((T(1) + std::fabs(x)) * (T(1) + std::fabs(x))))

enum class UnaryFunction {
#define X(Name, reads, f, df) k##Name,
  JACSERVE_UNARY(X)
#undef X
};

// One struct per function: UnaryRelu<T>::F(x, alpha, beta), UnaryRelu<T>::D(x, y, alpha, beta).
#define X(Name, reads, f, df)                                                                                   \
  template <class T>                                                                                            \
  struct Unary##Name {                                                                                          \
    static T F([[maybe_unused]] T x, [[maybe_unused]] T alpha, [[maybe_unused]] T beta) { return f; }           \
    static T D([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T alpha, [[maybe_unused]] T beta) { \
      return df;                                                                                                \
    }                                                                                                           \
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

enum class BinaryFunction { kAdd, kSub, kMul, kDiv };

}  // namespace jacserve::worker
