#include "worker/backend/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/backend/cpu/kernels.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace jacserve::worker::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
template <class T>
using D = hn::ScalableTag<T>;

// One row of OuterSum. Store: 0 plain, 1 past the caches, 2 add to what is there.
template <int kTerms, int kStore, class T>
HWY_INLINE void OuterRow(int64_t n, T a0, T a1, const T* HWY_RESTRICT b0, const T* HWY_RESTRICT b1,
                         T* HWY_RESTRICT out) {
  const D<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto va0 = hn::Set(d, a0), va1 = hn::Set(d, a1);
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    auto value = hn::Mul(va0, hn::LoadU(d, b0 + j));
    if (kTerms == 2) value = hn::MulAdd(va1, hn::LoadU(d, b1 + j), value);
    if (kStore == 2) value = hn::Add(value, hn::LoadU(d, out + j));
    if (kStore == 1) {
      hn::Stream(value, d, out + j);
    } else {
      hn::StoreU(value, d, out + j);
    }
  }
  const hn::CappedTag<T, 1> one;  // the same fused steps for what is left
  for (; j < n; ++j) {
    auto value = hn::Mul(hn::Set(one, a0), hn::LoadU(one, b0 + j));
    if (kTerms == 2) value = hn::MulAdd(hn::Set(one, a1), hn::LoadU(one, b1 + j), value);
    if (kStore == 2) value = hn::Add(value, hn::LoadU(one, out + j));
    hn::StoreU(value, one, out + j);
  }
}

template <int kTerms, int kStore, class T>
void OuterRows(int64_t m, int64_t n, const T* const* a, const T* const* b, T* out) {
  for (int64_t i = 0; i < m; ++i) {
    OuterRow<kTerms, kStore, T>(n, a[0][i], a[kTerms - 1][i], b[0], b[kTerms - 1], out + i * n);
  }
}

template <class T>
void OuterSumImpl(int terms, int64_t m, int64_t n, const T* const* a, const T* const* b, T* out, bool accumulate,
                  bool stream) {
  const D<T> d;
  const auto vector_bytes = static_cast<int64_t>(hn::Lanes(d) * sizeof(T));
  const bool aligned = reinterpret_cast<uintptr_t>(out) % vector_bytes == 0 && n * sizeof(T) % vector_bytes == 0;
  const int store = accumulate ? 2 : (stream && aligned ? 1 : 0);
  if (terms == 1) {
    store == 2   ? OuterRows<1, 2, T>(m, n, a, b, out)
    : store == 1 ? OuterRows<1, 1, T>(m, n, a, b, out)
                 : OuterRows<1, 0, T>(m, n, a, b, out);
  } else {
    store == 2   ? OuterRows<2, 2, T>(m, n, a, b, out)
    : store == 1 ? OuterRows<2, 1, T>(m, n, a, b, out)
                 : OuterRows<2, 0, T>(m, n, a, b, out);
  }
  if (store == 1) hwy::FlushStream();
}

template <class T>
void AddScaledImpl(int64_t n, T scale, const T* HWY_RESTRICT x, T* HWY_RESTRICT y) {
  const D<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) {
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, x + p), hn::LoadU(d, y + p)), d, y + p);
  }
  for (; p < n; ++p) y[p] += scale * x[p];
}

template <class T>
void ScaleImpl(int64_t n, T scale, const T* HWY_RESTRICT x, T* HWY_RESTRICT y) {
  const D<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) hn::StoreU(hn::Mul(factor, hn::LoadU(d, x + p)), d, y + p);
  for (; p < n; ++p) y[p] = scale * x[p];
}

template <class T>
T SumImpl(int64_t n, const T* x) {
  const D<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) sum = hn::Add(sum, hn::LoadU(d, x + p));
  T total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; p < n; ++p) total += x[p];
  return total;
}

template <class T>
void ReluPullbackImpl(int64_t n, const T* y, const T* ct_y, T* ct_x) {
  const D<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) {
    const auto positive = hn::Gt(hn::LoadU(d, y + p), hn::Zero(d));
    hn::StoreU(hn::IfThenElseZero(positive, hn::LoadU(d, ct_y + p)), d, ct_x + p);
  }
  for (; p < n; ++p) ct_x[p] = y[p] > 0 ? ct_y[p] : T(0);
}

// Dispatch is by plain functions, one per type.
#define X(T)                                                                                                        \
  void OuterSum_##T(int terms, int64_t m, int64_t n, const T* const* a, const T* const* b, T* out, bool accumulate, \
                    bool stream) {                                                                                  \
    OuterSumImpl<T>(terms, m, n, a, b, out, accumulate, stream);                                                    \
  }                                                                                                                 \
  void AddScaled_##T(int64_t n, T scale, const T* x, T* y) { AddScaledImpl<T>(n, scale, x, y); }                    \
  void Scale_##T(int64_t n, T scale, const T* x, T* y) { ScaleImpl<T>(n, scale, x, y); }                            \
  T Sum_##T(int64_t n, const T* x) { return SumImpl<T>(n, x); }                                                     \
  void ReluPullback_##T(int64_t n, const T* y, const T* ct_y, T* ct_x) { ReluPullbackImpl<T>(n, y, ct_y, ct_x); }
JACSERVE_CPU_TYPES(X)
#undef X

}  // namespace HWY_NAMESPACE
}  // namespace jacserve::worker::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace jacserve::worker::cpu {

#define X(T)                                                                                                    \
  HWY_EXPORT(OuterSum_##T);                                                                                     \
  HWY_EXPORT(AddScaled_##T);                                                                                    \
  HWY_EXPORT(Scale_##T);                                                                                        \
  HWY_EXPORT(Sum_##T);                                                                                          \
  HWY_EXPORT(ReluPullback_##T);                                                                                 \
  void OuterSum(int terms, int64_t m, int64_t n, const T* const* a, const T* const* b, T* out, bool accumulate, \
                bool stream) {                                                                                  \
    HWY_DYNAMIC_DISPATCH(OuterSum_##T)(terms, m, n, a, b, out, accumulate, stream);                             \
  }                                                                                                             \
  void AddScaled(int64_t n, T scale, const T* x, T* y) { HWY_DYNAMIC_DISPATCH(AddScaled_##T)(n, scale, x, y); } \
  void Scale(int64_t n, T scale, const T* x, T* y) { HWY_DYNAMIC_DISPATCH(Scale_##T)(n, scale, x, y); }         \
  T Sum(int64_t n, const T* x) { return HWY_DYNAMIC_DISPATCH(Sum_##T)(n, x); }                                  \
  void ReluPullback(int64_t n, const T* y, const T* ct_y, T* ct_x) {                                            \
    HWY_DYNAMIC_DISPATCH(ReluPullback_##T)(n, y, ct_y, ct_x);                                                   \
  }
JACSERVE_CPU_TYPES(X)
#undef X

}  // namespace jacserve::worker::cpu
#endif
