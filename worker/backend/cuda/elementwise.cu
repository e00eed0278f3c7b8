// Elementwise functions and their derivatives, from the formulas of every backend. The function is chosen inside the
// kernel: all threads take the same way, and there is one kernel to compile instead of seventy.
#include "worker/backend/cuda/kernels.h"
#include "worker/backend/cuda/launch.h"

namespace jacserve::worker::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
JACSERVE_DEVICE T Apply(UnaryFunction f, T x, T alpha, T beta) {
  switch (f) {
#define X(Name, reads, formula, derivative) \
  case UnaryFunction::k##Name:              \
    return Unary##Name<T>::F(x, alpha, beta);
    JACSERVE_UNARY(X)
#undef X
  }
  return T(0);
}

template <class T>
JACSERVE_DEVICE T Derivative(UnaryFunction f, T x, T y, T alpha, T beta) {
  switch (f) {
#define X(Name, reads, formula, derivative) \
  case UnaryFunction::k##Name:              \
    return Unary##Name<T>::D(x, y, alpha, beta);
    JACSERVE_UNARY(X)
#undef X
  }
  return T(0);
}

template <class T>
JACSERVE_DEVICE T Apply(BinaryFunction f, T a, T b) {
  switch (f) {
#define X(Name, formula, da_bits, da, db_bits, db) \
  case BinaryFunction::k##Name:                    \
    return Binary##Name<T>::F(a, b);
    JACSERVE_BINARY(X)
#undef X
  }
  return T(0);
}

template <class T>
JACSERVE_KERNEL UnaryKernel(UnaryFunction f, T alpha, T beta, int64_t lanes, int64_t n, Operand<const T> x,
                            Operand<T> y) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T* in = x.At(lane);
    T* out = y.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < n; p += BlocksX() * Threads()) {
      out[p] = Apply(f, in[p], alpha, beta);
    }
  }
}

template <class T>
JACSERVE_KERNEL UnaryPullbackKernel(UnaryFunction f, T alpha, T beta, int64_t lanes, int64_t n, Operand<const T> x,
                                    Operand<const T> y, Operand<const T> ct_y, Operand<T> ct_x) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T *in = x.At(lane), *out = y.At(lane), *ct_out = ct_y.At(lane);
    T* ct_in = ct_x.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < n; p += BlocksX() * Threads()) {
      ct_in[p] = Term(ct_out[p], Derivative(f, in[p], out[p], alpha, beta));
    }
  }
}

template <class T>
JACSERVE_KERNEL BinaryKernel(BinaryFunction f, int64_t lanes, Axes<3> axes, Operand<const T> a, Operand<const T> b,
                             Operand<T> out) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T *left = a.At(lane), *right = b.At(lane);
    T* to = out.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < axes.points; p += BlocksX() * Threads()) {
      int64_t at[3];
      axes.Offsets(p, at);
      to[at[2]] = Apply(f, left[at[0]], right[at[1]]);
    }
  }
}

template <class T>
JACSERVE_KERNEL SelectKernel(int64_t lanes, Axes<4> axes, Operand<const T> c, Operand<const T> a, Operand<const T> b,
                             Operand<T> out) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T *which = c.At(lane), *left = a.At(lane), *right = b.At(lane);
    T* to = out.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < axes.points; p += BlocksX() * Threads()) {
      int64_t at[4];
      axes.Offsets(p, at);
      to[at[3]] = which[at[0]] != T(0) ? left[at[1]] : right[at[2]];
    }
  }
}

JACSERVE_KERNEL RoundKernel(HalfFormat format, int64_t lanes, int64_t n, Operand<float> x, HalfLoss* loss) {
  int64_t underflows = 0, overflows = 0;
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    float* numbers = x.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < n; p += BlocksX() * Threads()) {
      const float own = numbers[p];
      const float rounded = format == HalfFormat::kFloat16 ? RoundToFloat16(own) : RoundToBfloat16(own);
      underflows += rounded == 0.0f && own != 0.0f;
      overflows += std::isinf(rounded) && !std::isinf(own);
      numbers[p] = rounded;
    }
  }
  if (underflows > 0) AtomicAdd(&loss->underflows, underflows);
  if (overflows > 0) AtomicAdd(&loss->overflows, overflows);
}

}  // namespace

template <class T>
cudaError_t Unary(cudaStream_t stream, UnaryFunction f, T alpha, T beta, int64_t lanes, int64_t n, Operand<const T> x,
                  Operand<T> y) {
  if (lanes == 0 || n == 0) return cudaSuccess;
  return Launch(UnaryKernel<T>, GridFor(n, kThreads, lanes), kThreads, 0, stream, f, alpha, beta, lanes, n, x, y);
}

template <class T>
cudaError_t UnaryPullback(cudaStream_t stream, UnaryFunction f, T alpha, T beta, int64_t lanes, int64_t n,
                          Operand<const T> x, Operand<const T> y, Operand<const T> ct_y, Operand<T> ct_x) {
  if (lanes == 0 || n == 0) return cudaSuccess;
  return Launch(UnaryPullbackKernel<T>, GridFor(n, kThreads, lanes), kThreads, 0, stream, f, alpha, beta, lanes, n, x,
                y, ct_y, ct_x);
}

template <class T>
cudaError_t Binary(cudaStream_t stream, BinaryFunction f, int64_t lanes, const Axes<3>& axes, Operand<const T> a,
                   Operand<const T> b, Operand<T> out) {
  if (lanes == 0 || axes.points == 0) return cudaSuccess;
  return Launch(BinaryKernel<T>, GridFor(axes.points, kThreads, lanes), kThreads, 0, stream, f, lanes, axes, a, b, out);
}

template <class T>
cudaError_t Select(cudaStream_t stream, int64_t lanes, const Axes<4>& axes, Operand<const T> c, Operand<const T> a,
                   Operand<const T> b, Operand<T> out) {
  if (lanes == 0 || axes.points == 0) return cudaSuccess;
  return Launch(SelectKernel<T>, GridFor(axes.points, kThreads, lanes), kThreads, 0, stream, lanes, axes, c, a, b, out);
}

cudaError_t RoundToHalf(cudaStream_t stream, HalfFormat format, int64_t lanes, int64_t n, Operand<float> x,
                        HalfLoss* loss) {
  if (lanes == 0 || n == 0) return cudaSuccess;
  return Launch(RoundKernel, GridFor(n, kThreads, lanes), kThreads, 0, stream, format, lanes, n, x, loss);
}

#define X(T)                                                                                                        \
  template cudaError_t Unary<T>(cudaStream_t, UnaryFunction, T, T, int64_t, int64_t, Operand<const T>, Operand<T>); \
  template cudaError_t UnaryPullback<T>(cudaStream_t, UnaryFunction, T, T, int64_t, int64_t, Operand<const T>,      \
                                        Operand<const T>, Operand<const T>, Operand<T>);                            \
  template cudaError_t Binary<T>(cudaStream_t, BinaryFunction, int64_t, const Axes<3>&, Operand<const T>,           \
                                 Operand<const T>, Operand<T>);                                                     \
  template cudaError_t Select<T>(cudaStream_t, int64_t, const Axes<4>&, Operand<const T>, Operand<const T>,         \
                                 Operand<const T>, Operand<T>);
X(float)
X(double)
#undef X

}  // namespace jacserve::worker::cuda
