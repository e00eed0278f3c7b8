// Strided copies and elementwise terms; axes that the result lacks are summed. A sum is one thread's while it is short,
// and a block's when it is long: that follows from the shape alone.
#include "worker/backend/cuda/kernels.h"
#include "worker/backend/cuda/launch.h"

namespace jacserve::worker::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kLongSum = 64;  // terms from which a block shares a sum

template <class T, int side>
JACSERVE_DEVICE T Derivative(BinaryFunction f, T a, T b, T y) {
  switch (f) {
#define X(Name, formula, da_bits, da, db_bits, db) \
  case BinaryFunction::k##Name:                    \
    return Binary##Name<T>::template D<side>(a, b, y);
    JACSERVE_BINARY(X)
#undef X
  }
  return T(0);
}

// Where a point of the kept axes and one of the summed axes are together.
template <int N>
JACSERVE_DEVICE void Add(const int64_t (&more)[N], int64_t (&at)[N]) {
  for (int v = 0; v < N; ++v) at[v] += more[v];
}

template <class T>
struct TermOf {
  BinaryFunction f;
  int side;
  Operand<const T> a, b, y, v;

  struct Lane {
    const T *a, *b, *y, *v;
    BinaryFunction f;
    int side;
    JACSERVE_DEVICE T operator()(const int64_t (&at)[5]) const {
      const T left = a[at[0]], right = b[at[1]], out = y[at[2]];
      return Term(v[at[3]], side == 0 ? Derivative<T, 0>(f, left, right, out) : Derivative<T, 1>(f, left, right, out));
    }
  };
  JACSERVE_DEVICE Lane At(int64_t lane) const { return {a.At(lane), b.At(lane), y.At(lane), v.At(lane), f, side}; }
};

template <class T>
struct CopyOf {
  Operand<const T> src;
  struct Lane {
    const T* src;
    JACSERVE_DEVICE T operator()(const int64_t (&at)[2]) const { return src[at[0]]; }
  };
  JACSERVE_DEVICE Lane At(int64_t lane) const { return {src.At(lane)}; }
};

// One thread per kept point. The last operand of the axes is `out`.
template <class T, int N, class Source>
JACSERVE_KERNEL PointKernel(int64_t lanes, Axes<N> kept, Axes<N> summed, Source source, Operand<T> out, bool accumulate,
                            T scale) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const auto from = source.At(lane);
    T* to = out.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < kept.points; p += BlocksX() * Threads()) {
      int64_t begin[N];
      kept.Offsets(p, begin);
      T sum = from(begin);
      for (int64_t q = 1; q < summed.points; ++q) {
        int64_t at[N];
        summed.Offsets(q, at);
        Add(begin, at);
        sum += from(at);
      }
      if (scale != T(1)) sum *= scale;  // what is only copied keeps its bits
      T& result = to[begin[N - 1]];
      result = accumulate ? result + sum : sum;
    }
  }
}

// One block per kept point.
template <class T, int N, class Source>
JACSERVE_KERNEL SumKernel(int64_t lanes, Axes<N> kept, Axes<N> summed, Source source, Operand<T> out, bool accumulate,
                          T scale) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const auto from = source.At(lane);
    T* to = out.At(lane);
    for (int64_t p = BlockX(); p < kept.points; p += BlocksX()) {
      int64_t begin[N];
      kept.Offsets(p, begin);
      T own = T(0);
      for (int64_t q = Thread(); q < summed.points; q += Threads()) {
        int64_t at[N];
        summed.Offsets(q, at);
        Add(begin, at);
        own += from(at);
      }
      const T sum = BlockSum(own);
      if (Thread() == 0) {
        T& result = to[begin[N - 1]];
        result = accumulate ? result + scale * sum : scale * sum;
      }
    }
  }
}

template <class T, int N, class Source>
cudaError_t Run(cudaStream_t stream, int64_t lanes, const Axes<N>& kept, const Axes<N>& summed, const Source& source,
                Operand<T> out, bool accumulate, T scale) {
  if (lanes == 0 || kept.points == 0 || summed.points == 0) return cudaSuccess;
  if (summed.points >= kLongSum) {
    const int threads = ThreadsFor(summed.points);
    return Launch(SumKernel<T, N, Source>, GridFor(kept.points, 1, lanes), threads, threads * sizeof(T), stream, lanes,
                  kept, summed, source, out, accumulate, scale);
  }
  return Launch(PointKernel<T, N, Source>, GridFor(kept.points, kThreads, lanes), kThreads, 0, stream, lanes, kept,
                summed, source, out, accumulate, scale);
}

template <class T>
JACSERVE_KERNEL FillKernel(int64_t lanes, int64_t n, T value, Operand<T> x) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    T* to = x.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < n; p += BlocksX() * Threads()) to[p] = value;
  }
}

}  // namespace

template <class T>
cudaError_t BinaryTerm(cudaStream_t stream, BinaryFunction f, int side, int64_t lanes, const Axes<5>& kept,
                       const Axes<5>& summed, Operand<const T> a, Operand<const T> b, Operand<const T> y,
                       Operand<const T> v, Operand<T> out, bool accumulate) {
  return Run(stream, lanes, kept, summed, TermOf<T>{f, side, a, b, y, v}, out, accumulate, T(1));
}

template <class T>
cudaError_t CopyStrided(cudaStream_t stream, int64_t lanes, const Axes<2>& kept, const Axes<2>& summed,
                        Operand<const T> src, Operand<T> dst, bool accumulate, T scale) {
  return Run(stream, lanes, kept, summed, CopyOf<T>{src}, dst, accumulate, scale);
}

template <class T>
cudaError_t Fill(cudaStream_t stream, int64_t lanes, int64_t n, T value, Operand<T> x) {
  if (lanes == 0 || n == 0) return cudaSuccess;
  return Launch(FillKernel<T>, GridFor(n, kThreads, lanes), kThreads, 0, stream, lanes, n, value, x);
}

#define X(T)                                                                                                     \
  template cudaError_t BinaryTerm<T>(cudaStream_t, BinaryFunction, int, int64_t, const Axes<5>&, const Axes<5>&, \
                                     Operand<const T>, Operand<const T>, Operand<const T>, Operand<const T>,     \
                                     Operand<T>, bool);                                                          \
  template cudaError_t CopyStrided<T>(cudaStream_t, int64_t, const Axes<2>&, const Axes<2>&, Operand<const T>,   \
                                      Operand<T>, bool, T);                                                      \
  template cudaError_t Fill<T>(cudaStream_t, int64_t, int64_t, T, Operand<T>);
X(float)
X(double)
#undef X

}  // namespace jacserve::worker::cuda
