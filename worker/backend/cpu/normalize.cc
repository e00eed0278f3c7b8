#include "worker/backend/cpu/normalize.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/backend/cpu/normalize.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace jacserve::worker::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
template <class T>
using D = hn::ScalableTag<T>;

// Numbers [q, q + count) that share one channel, or with run == 1 have channels side by side.
struct Segment {
  int64_t q, count, channel;
};

// The segment of [begin, end) that starts at begin.
HWY_INLINE Segment SegmentAt(const Channels& c, int64_t begin, int64_t end) {
  const int64_t channel = c.run == 1 ? begin % c.period : begin / c.run % c.period;
  const int64_t longest = c.run == 1 ? c.period - channel : c.run - begin % c.run;
  return {begin, std::min(end - begin, longest), channel};
}

// The sum over p < n of f(d, p), where f yields a vector of d's at p.
template <class T, class F>
HWY_INLINE T SumOf(int64_t n, F f) {
  const D<T> d;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d), other = hn::Zero(d);  // two chains of additions
  int64_t p = 0;
  for (; p + 2 * lanes <= n; p += 2 * lanes) {
    sum = hn::Add(sum, f(d, p));
    other = hn::Add(other, f(d, p + lanes));
  }
  for (; p + lanes <= n; p += lanes) sum = hn::Add(sum, f(d, p));
  T total = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, other)));
  for (; p < n; ++p) total += hn::GetLane(f(one, p));
  return total;
}

// out[p] = f(d, p) for p < n.
template <class T, class F>
HWY_INLINE void Map(int64_t n, T* out, F f) {
  const D<T> d;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) hn::StoreU(f(d, p), d, out + p);
  for (; p < n; ++p) hn::StoreU(f(one, p), one, out + p);
}

template <class T>
void AffineImpl(const Channels& c, const T* x, const T* gain, const T* bias, T* y) {
  for (int64_t q = 0; q < c.n;) {
    const Segment s = SegmentAt(c, q, c.n);
    const T *in = x + q, *factor = gain ? gain + s.channel : nullptr, *shift = bias ? bias + s.channel : nullptr;
    if (c.run == 1) {
      Map(s.count, y + q, [=](auto d, int64_t p) HWY_ATTR {
        auto value = hn::LoadU(d, in + p);
        if (factor) value = hn::Mul(value, hn::LoadU(d, factor + p));
        return shift ? hn::Add(value, hn::LoadU(d, shift + p)) : value;
      });
    } else {
      const T times = factor ? *factor : T(1), plus = shift ? *shift : T(0);
      Map(s.count, y + q, [=](auto d, int64_t p) HWY_ATTR {
        return hn::MulAdd(hn::LoadU(d, in + p), hn::Set(d, times), hn::Set(d, plus));
      });
    }
    q += s.count;
  }
}

template <class T>
void AddChannelSumsImpl(const Channels& c, const T* a, const T* b, T* sums) {
  for (int64_t q = 0; q < c.n;) {
    const Segment s = SegmentAt(c, q, c.n);
    const T *left = a + q, *right = b ? b + q : nullptr;
    T* to = sums + s.channel;
    const auto product = [=](auto d, int64_t p) HWY_ATTR {
      const auto value = hn::LoadU(d, left + p);
      return right ? hn::Mul(value, hn::LoadU(d, right + p)) : value;
    };
    if (c.run == 1) {
      Map(s.count, to, [=](auto d, int64_t p) HWY_ATTR { return hn::Add(hn::LoadU(d, to + p), product(d, p)); });
    } else {
      *to += SumOf<T>(s.count, product);
    }
    q += s.count;
  }
}

template <class T>
void NormalizeImpl(const NormGroups& g, const T* x, T* normal, T* rstd, T* mean) {
  for (int64_t group = 0; group < g.groups; ++group) {
    const T* in = x + group * g.n;
    const auto n = static_cast<T>(g.n);
    const T centre =
        g.centred ? SumOf<T>(g.n, [=](auto d, int64_t p) HWY_ATTR { return hn::LoadU(d, in + p); }) / n : T(0);
    const auto moved = [=](auto d, int64_t p) HWY_ATTR { return hn::Sub(hn::LoadU(d, in + p), hn::Set(d, centre)); };
    const T squares = SumOf<T>(g.n, [=](auto d, int64_t p) HWY_ATTR {
      const auto value = moved(d, p);
      return hn::Mul(value, value);
    });
    const T scale = T(1) / std::sqrt(squares / n + static_cast<T>(g.epsilon));
    Map(g.n, normal + group * g.n, [=](auto d, int64_t p) HWY_ATTR { return hn::Mul(moved(d, p), hn::Set(d, scale)); });
    rstd[group] = scale;
    if (mean != nullptr) mean[group] = centre;
  }
}

template <class T>
void NormalizePullbackImpl(const NormGroups& g, const Channels& c, const T* normal, const T* rstd, const T* gain,
                           const T* ct_y, T* ct_x) {
  const Channels plain{c.n, c.n, 1};
  const Channels& by = gain ? c : plain;
  const bool side_by_side = gain != nullptr && by.run == 1;
  for (int64_t group = 0; group < g.groups; ++group) {
    const int64_t begin = group * g.n, end = begin + g.n;
    T sum = 0, along = 0;
    for (int64_t q = begin; q < end;) {
      const Segment s = SegmentAt(by, q, end);
      const T *ct = ct_y + q, *unit = normal + q, *factors = gain + s.channel;
      const T factor = gain && !side_by_side ? *factors : T(1);
      const auto h = [=](auto d, int64_t p) HWY_ATTR {
        return side_by_side ? hn::Mul(hn::LoadU(d, ct + p), hn::LoadU(d, factors + p)) : hn::LoadU(d, ct + p);
      };
      if (g.centred) sum += factor * SumOf<T>(s.count, h);
      along += factor *
               SumOf<T>(s.count, [=](auto d, int64_t p) HWY_ATTR { return hn::Mul(h(d, p), hn::LoadU(d, unit + p)); });
      q += s.count;
    }
    sum /= static_cast<T>(g.n);
    along /= static_cast<T>(g.n);
    const T scale = rstd[group];
    for (int64_t q = begin; q < end;) {
      const Segment s = SegmentAt(by, q, end);
      const T *ct = ct_y + q, *unit = normal + q, *factors = gain + s.channel;
      const T factor = gain && !side_by_side ? *factors : T(1);
      Map(s.count, ct_x + q, [=](auto d, int64_t p) HWY_ATTR {
        auto h = hn::LoadU(d, ct + p);
        h = side_by_side ? hn::Mul(h, hn::LoadU(d, factors + p)) : hn::Mul(h, hn::Set(d, factor));
        const auto rest = hn::MulAdd(hn::LoadU(d, unit + p), hn::Set(d, along), hn::Set(d, sum));
        return hn::Mul(hn::Set(d, scale), hn::Sub(h, rest));
      });
      q += s.count;
    }
  }
}

// Dispatch is by plain functions, one per type.
#define X(T)                                                                                                        \
  void Affine_##T(const Channels& c, const T* x, const T* gain, const T* bias, T* y) {                              \
    AffineImpl<T>(c, x, gain, bias, y);                                                                             \
  }                                                                                                                 \
  void AddChannelSums_##T(const Channels& c, const T* a, const T* b, T* sums) {                                     \
    AddChannelSumsImpl<T>(c, a, b, sums);                                                                           \
  }                                                                                                                 \
  void Normalize_##T(const NormGroups& g, const T* x, T* normal, T* rstd, T* mean) {                                \
    NormalizeImpl<T>(g, x, normal, rstd, mean);                                                                     \
  }                                                                                                                 \
  void NormalizePullback_##T(const NormGroups& g, const Channels& c, const T* normal, const T* rstd, const T* gain, \
                             const T* ct_y, T* ct_x) {                                                              \
    NormalizePullbackImpl<T>(g, c, normal, rstd, gain, ct_y, ct_x);                                                 \
  }
JACSERVE_CPU_TYPES(X)
#undef X

}  // namespace HWY_NAMESPACE
}  // namespace jacserve::worker::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace jacserve::worker::cpu {

#define X(T)                                                                                                    \
  HWY_EXPORT(Affine_##T);                                                                                       \
  HWY_EXPORT(AddChannelSums_##T);                                                                               \
  HWY_EXPORT(Normalize_##T);                                                                                    \
  HWY_EXPORT(NormalizePullback_##T);                                                                            \
  void Affine(const Channels& c, const T* x, const T* gain, const T* bias, T* y) {                              \
    HWY_DYNAMIC_DISPATCH(Affine_##T)(c, x, gain, bias, y);                                                      \
  }                                                                                                             \
  void AddChannelSums(const Channels& c, const T* a, const T* b, T* sums) {                                     \
    HWY_DYNAMIC_DISPATCH(AddChannelSums_##T)(c, a, b, sums);                                                    \
  }                                                                                                             \
  void Normalize(const NormGroups& g, const T* x, T* normal, T* rstd, T* mean) {                                \
    HWY_DYNAMIC_DISPATCH(Normalize_##T)(g, x, normal, rstd, mean);                                              \
  }                                                                                                             \
  void NormalizePullback(const NormGroups& g, const Channels& c, const T* normal, const T* rstd, const T* gain, \
                         const T* ct_y, T* ct_x) {                                                              \
    HWY_DYNAMIC_DISPATCH(NormalizePullback_##T)(g, c, normal, rstd, gain, ct_y, ct_x);                          \
  }
JACSERVE_CPU_TYPES(X)
#undef X

}  // namespace jacserve::worker::cpu
#endif
