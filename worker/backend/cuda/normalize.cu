// Normalisation: means, variances, gains per channel, and their pullback. A block per sum.
#include "worker/backend/cuda/kernels.h"
#include "worker/backend/cuda/launch.h"

namespace jacserve::worker::cuda {
namespace {

constexpr int kThreads = 256;

JACSERVE_DEVICE int64_t ChannelOf(const Channels& c, int64_t q) { return q / c.run % c.period; }

template <class T>
JACSERVE_KERNEL AffineKernel(Channels c, int64_t lanes, Operand<const T> x, Operand<const T> gain,
                             Operand<const T> bias, Operand<T> y) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T* in = x.At(lane);
    T* out = y.At(lane);
    for (int64_t q = BlockX() * Threads() + Thread(); q < c.n; q += BlocksX() * Threads()) {
      const int64_t channel = ChannelOf(c, q);
      const T factor = gain.data != nullptr ? gain.At(lane)[channel] : T(1);
      out[q] = in[q] * factor + (bias.data != nullptr ? bias.At(lane)[channel] : T(0));
    }
  }
}

template <class T>
JACSERVE_KERNEL ChannelRowsKernel(Channels c, Terms terms, Operand<const T> a, Operand<const T> b, Operand<T> rows,
                                  bool accumulate) {
  const int64_t stretches = (c.n + c.run * c.period - 1) / (c.run * c.period);
  for (int64_t row = BlockY(); row < terms.rows; row += BlocksY()) {
    for (int64_t channel = BlockX(); channel < c.period; channel += BlocksX()) {
      T own = T(0);
      for (int64_t t = 0; t < terms.per_row; ++t) {
        const int64_t lane = row * terms.per_row + t;
        const T *left = a.At(lane), *right = b.data != nullptr ? b.At(lane) : nullptr;
        for (int64_t j = Thread(); j < stretches * c.run; j += Threads()) {
          const int64_t q = (j / c.run * c.period + channel) * c.run + j % c.run;
          if (q < c.n) own += left[q] * (right != nullptr ? right[q] : T(1));
        }
      }
      const T sum = BlockSum(own);
      if (Thread() == 0) rows.At(row)[channel] = accumulate ? rows.At(row)[channel] + sum : sum;
    }
  }
}

template <class T>
JACSERVE_KERNEL NormalizeKernel(NormGroups g, int64_t lanes, Operand<const T> x, Operand<T> normal, Operand<T> rstd,
                                Operand<T> mean) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    for (int64_t group = BlockX(); group < g.groups; group += BlocksX()) {
      const T* in = x.At(lane) + group * g.n;
      T* out = normal.At(lane) + group * g.n;
      T own = T(0), squares = T(0);
      for (int64_t p = Thread(); p < g.n; p += Threads()) own += in[p];
      const T sum = BlockSum(own), centre = g.centred ? sum / static_cast<T>(g.n) : T(0);
      for (int64_t p = Thread(); p < g.n; p += Threads()) squares += (in[p] - centre) * (in[p] - centre);
      const T variance = BlockSum(squares) / static_cast<T>(g.n);
      const T scale = T(1) / std::sqrt(variance + static_cast<T>(g.epsilon));
      for (int64_t p = Thread(); p < g.n; p += Threads()) out[p] = (in[p] - centre) * scale;
      if (Thread() != 0) continue;
      rstd.At(lane)[group] = scale;
      if (mean.data != nullptr) mean.At(lane)[group] = centre;
    }
  }
}

template <class T>
JACSERVE_KERNEL NormalizePullbackKernel(NormGroups g, Channels c, int64_t lanes, Operand<const T> normal,
                                        Operand<const T> rstd, Operand<const T> gain, Operand<const T> ct_y,
                                        Operand<T> ct_x) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T *unit = normal.At(lane), *ct_out = ct_y.At(lane);
    const T* factor = gain.data != nullptr ? gain.At(lane) : nullptr;
    for (int64_t group = BlockX(); group < g.groups; group += BlocksX()) {
      const int64_t begin = group * g.n, end = begin + g.n;
      T own_sum = T(0), own_along = T(0);
      for (int64_t q = begin + Thread(); q < end; q += Threads()) {
        const T h = ct_out[q] * (factor != nullptr ? factor[ChannelOf(c, q)] : T(1));
        own_sum += h;
        own_along += h * unit[q];
      }
      const T total = BlockSum(own_sum), along = BlockSum(own_along) / static_cast<T>(g.n);
      const T sum = g.centred ? total / static_cast<T>(g.n) : T(0);
      for (int64_t q = begin + Thread(); q < end; q += Threads()) {
        const T h = ct_out[q] * (factor != nullptr ? factor[ChannelOf(c, q)] : T(1));
        ct_x.At(lane)[q] = rstd.At(lane)[group] * (h - sum - unit[q] * along);
      }
    }
  }
}

}  // namespace

template <class T>
cudaError_t Affine(cudaStream_t stream, const Channels& c, int64_t lanes, Operand<const T> x, Operand<const T> gain,
                   Operand<const T> bias, Operand<T> y) {
  if (lanes == 0 || c.n == 0) return cudaSuccess;
  return Launch(AffineKernel<T>, GridFor(c.n, kThreads, lanes), kThreads, 0, stream, c, lanes, x, gain, bias, y);
}

template <class T>
cudaError_t ChannelRows(cudaStream_t stream, const Channels& c, Terms terms, Operand<const T> a, Operand<const T> b,
                        Operand<T> rows, bool accumulate) {
  if (terms.rows == 0 || c.period == 0) return cudaSuccess;
  const int threads = ThreadsFor(c.n / c.period);
  return Launch(ChannelRowsKernel<T>, GridFor(c.period, 1, terms.rows), threads, threads * sizeof(T), stream, c, terms,
                a, b, rows, accumulate);
}

template <class T>
cudaError_t Normalize(cudaStream_t stream, const NormGroups& g, int64_t lanes, Operand<const T> x, Operand<T> normal,
                      Operand<T> rstd, Operand<T> mean) {
  if (lanes == 0 || g.groups == 0) return cudaSuccess;
  const int threads = ThreadsFor(g.n);
  return Launch(NormalizeKernel<T>, GridFor(g.groups, 1, lanes), threads, threads * sizeof(T), stream, g, lanes, x,
                normal, rstd, mean);
}

template <class T>
cudaError_t NormalizePullback(cudaStream_t stream, const NormGroups& g, const Channels& c, int64_t lanes,
                              Operand<const T> normal, Operand<const T> rstd, Operand<const T> gain,
                              Operand<const T> ct_y, Operand<T> ct_x) {
  if (lanes == 0 || g.groups == 0) return cudaSuccess;
  const int threads = ThreadsFor(g.n);
  return Launch(NormalizePullbackKernel<T>, GridFor(g.groups, 1, lanes), threads, threads * sizeof(T), stream, g, c,
                lanes, normal, rstd, gain, ct_y, ct_x);
}

#define X(T)                                                                                                        \
  template cudaError_t Affine<T>(cudaStream_t, const Channels&, int64_t, Operand<const T>, Operand<const T>,        \
                                 Operand<const T>, Operand<T>);                                                     \
  template cudaError_t ChannelRows<T>(cudaStream_t, const Channels&, Terms, Operand<const T>, Operand<const T>,     \
                                      Operand<T>, bool);                                                            \
  template cudaError_t Normalize<T>(cudaStream_t, const NormGroups&, int64_t, Operand<const T>, Operand<T>,         \
                                    Operand<T>, Operand<T>);                                                        \
  template cudaError_t NormalizePullback<T>(cudaStream_t, const NormGroups&, const Channels&, int64_t,              \
                                            Operand<const T>, Operand<const T>, Operand<const T>, Operand<const T>, \
                                            Operand<T>);
X(float)
X(double)
#undef X

}  // namespace jacserve::worker::cuda
