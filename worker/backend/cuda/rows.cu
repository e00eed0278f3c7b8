// Rows that are sums of outer products, and the pointers of a batch of products.
// OuterRows is bound by writing: each number is written once, with both terms, and never read unless it accumulates.
#include "worker/backend/cuda/kernels.h"
#include "worker/backend/cuda/launch.h"

namespace jacserve::worker::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kQuad = 4;  // numbers that a thread makes at a time: one division, one wide write

template <class T>
struct alignas(16) Quad {
  T at[kQuad];
};

template <class T>
JACSERVE_KERNEL OuterRowsKernel(Terms terms, int64_t m, int64_t n, Operand<const T> a, Operand<const T> b,
                                Operand<T> rows, bool accumulate) {
  for (int64_t row = BlockY(); row < terms.rows; row += BlocksY()) {
    T* out = rows.At(row);
    for (int64_t p = BlockX() * Threads() + Thread(); p < m * n; p += BlocksX() * Threads()) {
      const int64_t i = m * n < (int64_t{1} << 32) ? static_cast<uint32_t>(p) / static_cast<uint32_t>(n) : p / n;
      T sum = accumulate ? out[p] : T(0);
      for (int64_t t = 0; t < terms.per_row; ++t) {
        const int64_t lane = row * terms.per_row + t;
        sum += a.At(lane)[i] * b.At(lane)[p - i * n];
      }
      out[p] = sum;
    }
  }
}

template <class T>
JACSERVE_KERNEL OuterQuadsKernel(Terms terms, int64_t m, int64_t n, Operand<const T> a, Operand<const T> b,
                                 Operand<T> rows) {
  const int64_t quads = n / kQuad;
  for (int64_t row = BlockY(); row < terms.rows; row += BlocksY()) {
    auto* out = reinterpret_cast<Quad<T>*>(rows.At(row));
    for (int64_t p = BlockX() * Threads() + Thread(); p < m * quads; p += BlocksX() * Threads()) {
      const int64_t i =
          m * quads < (int64_t{1} << 32) ? static_cast<uint32_t>(p) / static_cast<uint32_t>(quads) : p / quads;
      const int64_t j = (p - i * quads) * kQuad;
      Quad<T> sum = {};
      for (int64_t t = 0; t < terms.per_row; ++t) {
        const int64_t lane = row * terms.per_row + t;
        const T left = a.At(lane)[i];
        const T* right = b.At(lane) + j;
        for (int k = 0; k < kQuad; ++k) sum.at[k] += left * right[k];
      }
      out[p] = sum;
    }
  }
}

template <class T>
JACSERVE_KERNEL PointersKernel(int64_t lanes, int64_t groups, int64_t group_stride, Operand<const T> x,
                               const T** pointers) {
  for (int64_t q = BlockX() * Threads() + Thread(); q < lanes * groups; q += BlocksX() * Threads()) {
    pointers[q] = x.At(q / groups) + q % groups * group_stride;
  }
}

}  // namespace

template <class T>
cudaError_t OuterRows(cudaStream_t stream, Terms terms, int64_t m, int64_t n, Operand<const T> a, Operand<const T> b,
                      Operand<T> rows, bool accumulate) {
  if (terms.rows == 0 || m * n == 0) return cudaSuccess;
  const bool aligned =
      reinterpret_cast<uintptr_t>(rows.data) % alignof(Quad<T>) == 0 && rows.stride * sizeof(T) % alignof(Quad<T>) == 0;
  if (n % kQuad == 0 && aligned && !accumulate) {
    return Launch(OuterQuadsKernel<T>, GridFor(m * n / kQuad, kThreads, terms.rows), kThreads, 0, stream, terms, m, n,
                  a, b, rows);
  }
  return Launch(OuterRowsKernel<T>, GridFor(m * n, kThreads, terms.rows), kThreads, 0, stream, terms, m, n, a, b, rows,
                accumulate);
}

template <class T>
cudaError_t Pointers(cudaStream_t stream, int64_t lanes, int64_t groups, int64_t group_stride, Operand<const T> x,
                     const T** pointers) {
  if (lanes * groups == 0) return cudaSuccess;
  return Launch(PointersKernel<T>, GridFor(lanes * groups, kThreads, 1), kThreads, 0, stream, lanes, groups,
                group_stride, x, pointers);
}

#define X(T)                                                                                                   \
  template cudaError_t OuterRows<T>(cudaStream_t, Terms, int64_t, int64_t, Operand<const T>, Operand<const T>, \
                                    Operand<T>, bool);                                                         \
  template cudaError_t Pointers<T>(cudaStream_t, int64_t, int64_t, int64_t, Operand<const T>, const T**);
X(float)
X(double)
#undef X

}  // namespace jacserve::worker::cuda
