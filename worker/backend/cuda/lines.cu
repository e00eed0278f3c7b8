// What goes along lines of numbers, the middle axis of [outer, n, inner]: softmax, running sums, the largest ones.
#include "worker/backend/cuda/kernels.h"
#include "worker/backend/cuda/launch.h"

namespace jacserve::worker::cuda {
namespace {

constexpr int kThreads = 256;

// A block per line. log: y = x - max - log sum exp(x - max); else exp of that.
template <class T>
JACSERVE_KERNEL SoftmaxKernel(bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner, Operand<const T> x,
                              Operand<T> y) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    for (int64_t line = BlockX(); line < outer * inner; line += BlocksX()) {
      const int64_t base = line / inner * n * inner + line % inner;
      const T* in = x.At(lane) + base;
      T* out = y.At(lane) + base;
      T own = static_cast<T>(-INFINITY);
      for (int64_t k = Thread(); k < n; k += Threads()) own = in[k * inner] > own ? in[k * inner] : own;
      const T largest = BlockMax(own);
      T terms = T(0);
      for (int64_t k = Thread(); k < n; k += Threads()) terms += std::exp(in[k * inner] - largest);
      const T log_sum = std::log(BlockSum(terms));
      for (int64_t k = Thread(); k < n; k += Threads()) {
        const T log_y = in[k * inner] - largest - log_sum;
        out[k * inner] = log ? log_y : std::exp(log_y);
      }
    }
  }
}

template <class T>
JACSERVE_KERNEL SoftmaxPullbackKernel(bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner,
                                      Operand<const T> y, Operand<const T> ct_y, Operand<T> ct_x) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    for (int64_t line = BlockX(); line < outer * inner; line += BlocksX()) {
      const int64_t base = line / inner * n * inner + line % inner;
      const T *out = y.At(lane) + base, *ct_out = ct_y.At(lane) + base;
      T* ct_in = ct_x.At(lane) + base;
      T terms = T(0);
      for (int64_t k = Thread(); k < n; k += Threads()) {
        terms += log ? ct_out[k * inner] : out[k * inner] * ct_out[k * inner];
      }
      const T sum = BlockSum(terms);
      for (int64_t k = Thread(); k < n; k += Threads()) {
        const int64_t q = k * inner;
        ct_in[q] = log ? ct_out[q] - std::exp(out[q]) * sum : out[q] * (ct_out[q] - sum);
      }
    }
  }
}

// A thread per line.
template <class T>
JACSERVE_KERNEL ScanKernel(bool product, bool exclusive, bool reverse, int64_t lanes, int64_t outer, int64_t n,
                           int64_t inner, Operand<const T> x, Operand<T> y) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    for (int64_t line = BlockX() * Threads() + Thread(); line < outer * inner; line += BlocksX() * Threads()) {
      const int64_t base = line / inner * n * inner + line % inner;
      const T* in = x.At(lane) + base;
      T* out = y.At(lane) + base;
      T total = product ? T(1) : T(0);
      for (int64_t k = 0; k < n; ++k) {
        const int64_t p = (reverse ? n - 1 - k : k) * inner;
        const T before = total;
        total = product ? total * in[p] : total + in[p];
        out[p] = exclusive ? before : total;
      }
    }
  }
}

// Does i come before j? Among equal numbers the index decides, so that no two are alike.
template <class T>
JACSERVE_DEVICE bool Before(const TopKShape& s, const T* in, int64_t i, int64_t j) {
  const T u = in[i * s.inner], v = in[j * s.inner];
  if (u == v) return s.last_of_equal ? i > j : i < j;
  return s.largest ? u > v : u < v;
}

// A thread per line, which looks for one number after the other.
template <class T>
JACSERVE_KERNEL TopKKernel(TopKShape s, int64_t lanes, Operand<const T> x, Operand<T> values, Operand<T> indices,
                           Operand<int32_t> arg) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    for (int64_t line = BlockX() * Threads() + Thread(); line < s.outer * s.inner; line += BlocksX() * Threads()) {
      const int64_t base = line / s.inner * s.n * s.inner + line % s.inner;
      const T* in = x.At(lane) + base;
      int64_t previous = -1;
      for (int64_t i = 0; i < s.k; ++i) {
        int64_t first = -1;
        for (int64_t j = 0; j < s.n; ++j) {
          if (previous >= 0 && !Before(s, in, previous, j)) continue;
          if (first < 0 || Before(s, in, j, first)) first = j;
        }
        if (first < 0) first = 0;  // NaN comes neither before nor after
        const int64_t to = line / s.inner * s.k * s.inner + i * s.inner + line % s.inner;
        if (values.data != nullptr) values.At(lane)[to] = in[first * s.inner];
        if (indices.data != nullptr) indices.At(lane)[to] = static_cast<T>(first);
        if (arg.data != nullptr) arg.At(lane)[to] = static_cast<int32_t>(base + first * s.inner);
        previous = first;
      }
    }
  }
}

}  // namespace

template <class T>
cudaError_t Softmax(cudaStream_t stream, bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner,
                    Operand<const T> x, Operand<T> y) {
  if (lanes == 0 || outer * n * inner == 0) return cudaSuccess;
  const int threads = ThreadsFor(n);
  return Launch(SoftmaxKernel<T>, GridFor(outer * inner, 1, lanes), threads, threads * sizeof(T), stream, log, lanes,
                outer, n, inner, x, y);
}

template <class T>
cudaError_t SoftmaxPullback(cudaStream_t stream, bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner,
                            Operand<const T> y, Operand<const T> ct_y, Operand<T> ct_x) {
  if (lanes == 0 || outer * n * inner == 0) return cudaSuccess;
  const int threads = ThreadsFor(n);
  return Launch(SoftmaxPullbackKernel<T>, GridFor(outer * inner, 1, lanes), threads, threads * sizeof(T), stream, log,
                lanes, outer, n, inner, y, ct_y, ct_x);
}

template <class T>
cudaError_t Scan(cudaStream_t stream, bool product, bool exclusive, bool reverse, int64_t lanes, int64_t outer,
                 int64_t n, int64_t inner, Operand<const T> x, Operand<T> y) {
  if (lanes == 0 || outer * n * inner == 0) return cudaSuccess;
  return Launch(ScanKernel<T>, GridFor(outer * inner, kThreads, lanes), kThreads, 0, stream, product, exclusive,
                reverse, lanes, outer, n, inner, x, y);
}

template <class T>
cudaError_t TopK(cudaStream_t stream, const TopKShape& shape, int64_t lanes, Operand<const T> x, Operand<T> values,
                 Operand<T> indices, Operand<int32_t> arg) {
  if (lanes == 0 || shape.outer * shape.n * shape.inner == 0) return cudaSuccess;
  return Launch(TopKKernel<T>, GridFor(shape.outer * shape.inner, kThreads, lanes), kThreads, 0, stream, shape, lanes,
                x, values, indices, arg);
}

#define X(T)                                                                                                         \
  template cudaError_t Softmax<T>(cudaStream_t, bool, int64_t, int64_t, int64_t, int64_t, Operand<const T>,          \
                                  Operand<T>);                                                                       \
  template cudaError_t SoftmaxPullback<T>(cudaStream_t, bool, int64_t, int64_t, int64_t, int64_t, Operand<const T>,  \
                                          Operand<const T>, Operand<T>);                                             \
  template cudaError_t Scan<T>(cudaStream_t, bool, bool, bool, int64_t, int64_t, int64_t, int64_t, Operand<const T>, \
                               Operand<T>);                                                                          \
  template cudaError_t TopK<T>(cudaStream_t, const TopKShape&, int64_t, Operand<const T>, Operand<T>, Operand<T>,    \
                               Operand<int32_t>);
X(float)
X(double)
#undef X

}  // namespace jacserve::worker::cuda
