// Plain loops for normalisation: means, variances, gains per channel, and their pullback.
#include <algorithm>
#include <cmath>

#include "worker/backend/reference/reference_backend.h"

namespace jacserve::worker {
namespace {

int64_t ChannelOf(const Channels& c, int64_t q) { return q / c.run % c.period; }

}  // namespace

template <class T>
void ReferenceBackend<T>::Affine(const Channels& c, int64_t lanes, ConstLanes x, ConstLanes gain, ConstLanes bias,
                                 Lanes y) const {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T *in = x.At<T>(lane), *factor = gain.data ? gain.At<T>(lane) : nullptr;
    const T* shift = bias.data ? bias.At<T>(lane) : nullptr;
    T* out = y.At<T>(lane);
    for (int64_t q = 0; q < c.n; ++q) {
      const int64_t channel = ChannelOf(c, q);
      out[q] = in[q] * (factor ? factor[channel] : T(1)) + (shift ? shift[channel] : T(0));
    }
  }
}

template <class T>
void ReferenceBackend<T>::ChannelRows(const Channels& c, Terms terms, ConstLanes a, ConstLanes b, Lanes rows,
                                      bool accumulate) const {
  for (int64_t lane = 0; lane < terms.lanes(); ++lane) {
    T* row = rows.At<T>(lane / terms.per_row);
    if (!accumulate && lane % terms.per_row == 0) std::fill_n(row, c.period, T(0));
    const T *left = a.At<T>(lane), *right = b.data ? b.At<T>(lane) : nullptr;
    for (int64_t q = 0; q < c.n; ++q) row[ChannelOf(c, q)] += left[q] * (right ? right[q] : T(1));
  }
}

template <class T>
void ReferenceBackend<T>::Normalize(const NormGroups& g, int64_t lanes, ConstLanes x, Lanes normal, Lanes rstd,
                                    Lanes mean) const {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (int64_t group = 0; group < g.groups; ++group) {
      const T* in = x.At<T>(lane) + group * g.n;
      T* out = normal.At<T>(lane) + group * g.n;
      T sum = 0, squares = 0;
      for (int64_t p = 0; p < g.n; ++p) sum += in[p];
      const T centre = g.centred ? sum / static_cast<T>(g.n) : T(0);
      for (int64_t p = 0; p < g.n; ++p) squares += (in[p] - centre) * (in[p] - centre);
      const T scale = T(1) / std::sqrt(squares / static_cast<T>(g.n) + static_cast<T>(g.epsilon));
      for (int64_t p = 0; p < g.n; ++p) out[p] = (in[p] - centre) * scale;
      rstd.At<T>(lane)[group] = scale;
      if (mean.data != nullptr) mean.At<T>(lane)[group] = centre;
    }
  }
}

template <class T>
void ReferenceBackend<T>::NormalizePullback(const NormGroups& g, const Channels& c, int64_t lanes, ConstLanes normal,
                                            ConstLanes rstd, ConstLanes gain, ConstLanes ct_y, Lanes ct_x) const {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T *unit = normal.At<T>(lane), *ct_out = ct_y.At<T>(lane), *scale = rstd.At<T>(lane);
    const T* factor = gain.data ? gain.At<T>(lane) : nullptr;
    T* ct_in = ct_x.At<T>(lane);
    const auto h = [&](int64_t q) { return ct_out[q] * (factor ? factor[ChannelOf(c, q)] : T(1)); };
    for (int64_t group = 0; group < g.groups; ++group) {
      const int64_t begin = group * g.n, end = begin + g.n;
      T sum = 0, along = 0;
      for (int64_t q = begin; q < end; ++q) {
        sum += h(q);
        along += h(q) * unit[q];
      }
      sum = g.centred ? sum / static_cast<T>(g.n) : T(0);
      along /= static_cast<T>(g.n);
      for (int64_t q = begin; q < end; ++q) ct_in[q] = scale[group] * (h(q) - sum - unit[q] * along);
    }
  }
}

#define X(T)                                                                                                         \
  template void ReferenceBackend<T>::Affine(const Channels&, int64_t, ConstLanes, ConstLanes, ConstLanes, Lanes)     \
      const;                                                                                                         \
  template void ReferenceBackend<T>::ChannelRows(const Channels&, Terms, ConstLanes, ConstLanes, Lanes, bool) const; \
  template void ReferenceBackend<T>::Normalize(const NormGroups&, int64_t, ConstLanes, Lanes, Lanes, Lanes) const;   \
  template void ReferenceBackend<T>::NormalizePullback(const NormGroups&, const Channels&, int64_t, ConstLanes,      \
                                                       ConstLanes, ConstLanes, ConstLanes, Lanes) const;
X(float)
X(double)
#undef X

}  // namespace jacserve::worker
