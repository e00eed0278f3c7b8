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
using D = hn::ScalableTag<float>;

// One row of OuterSum. Store: 0 plain, 1 past the caches, 2 add to what is there.
template <int kTerms, int kStore>
HWY_INLINE void OuterRow(int64_t n, float a0, float a1, const float* HWY_RESTRICT b0, const float* HWY_RESTRICT b1,
                         float* HWY_RESTRICT out) {
  const D d;
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
  const hn::CappedTag<float, 1> one;  // the same fused steps for what is left
  for (; j < n; ++j) {
    auto value = hn::Mul(hn::Set(one, a0), hn::LoadU(one, b0 + j));
    if (kTerms == 2) value = hn::MulAdd(hn::Set(one, a1), hn::LoadU(one, b1 + j), value);
    if (kStore == 2) value = hn::Add(value, hn::LoadU(one, out + j));
    hn::StoreU(value, one, out + j);
  }
}

template <int kTerms, int kStore>
void OuterRows(int64_t m, int64_t n, const float* const* a, const float* const* b, float* out) {
  for (int64_t i = 0; i < m; ++i) {
    OuterRow<kTerms, kStore>(n, a[0][i], a[kTerms - 1][i], b[0], b[kTerms - 1], out + i * n);
  }
}

void OuterSumImpl(int terms, int64_t m, int64_t n, const float* const* a, const float* const* b, float* out,
                  bool accumulate, bool stream) {
  const D d;
  const auto vector_bytes = static_cast<int64_t>(hn::Lanes(d) * sizeof(float));
  const bool aligned = reinterpret_cast<uintptr_t>(out) % vector_bytes == 0 && n * sizeof(float) % vector_bytes == 0;
  const int store = accumulate ? 2 : (stream && aligned ? 1 : 0);
  if (terms == 1) {
    store == 2   ? OuterRows<1, 2>(m, n, a, b, out)
    : store == 1 ? OuterRows<1, 1>(m, n, a, b, out)
                 : OuterRows<1, 0>(m, n, a, b, out);
  } else {
    store == 2   ? OuterRows<2, 2>(m, n, a, b, out)
    : store == 1 ? OuterRows<2, 1>(m, n, a, b, out)
                 : OuterRows<2, 0>(m, n, a, b, out);
  }
  if (store == 1) hwy::FlushStream();
}

void AddScaledImpl(int64_t n, float scale, const float* HWY_RESTRICT x, float* HWY_RESTRICT y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) {
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, x + p), hn::LoadU(d, y + p)), d, y + p);
  }
  for (; p < n; ++p) y[p] += scale * x[p];
}

void ScaleImpl(int64_t n, float scale, const float* HWY_RESTRICT x, float* HWY_RESTRICT y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) hn::StoreU(hn::Mul(factor, hn::LoadU(d, x + p)), d, y + p);
  for (; p < n; ++p) y[p] = scale * x[p];
}

float SumImpl(int64_t n, const float* x) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) sum = hn::Add(sum, hn::LoadU(d, x + p));
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; p < n; ++p) total += x[p];
  return total;
}

void ReluPullbackImpl(int64_t n, const float* y, const float* ct_y, float* ct_x) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t p = 0;
  for (; p + lanes <= n; p += lanes) {
    const auto positive = hn::Gt(hn::LoadU(d, y + p), hn::Zero(d));
    hn::StoreU(hn::IfThenElseZero(positive, hn::LoadU(d, ct_y + p)), d, ct_x + p);
  }
  for (; p < n; ++p) ct_x[p] = y[p] > 0 ? ct_y[p] : 0.0f;
}

}  // namespace HWY_NAMESPACE
}  // namespace jacserve::worker::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace jacserve::worker::cpu {

HWY_EXPORT(OuterSumImpl);
HWY_EXPORT(AddScaledImpl);
HWY_EXPORT(ScaleImpl);
HWY_EXPORT(SumImpl);
HWY_EXPORT(ReluPullbackImpl);

void OuterSum(int terms, int64_t m, int64_t n, const float* const* a, const float* const* b, float* out,
              bool accumulate, bool stream) {
  HWY_DYNAMIC_DISPATCH(OuterSumImpl)(terms, m, n, a, b, out, accumulate, stream);
}
void AddScaled(int64_t n, float scale, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(AddScaledImpl)(n, scale, x, y);
}
void Scale(int64_t n, float scale, const float* x, float* y) { HWY_DYNAMIC_DISPATCH(ScaleImpl)(n, scale, x, y); }
float Sum(int64_t n, const float* x) { return HWY_DYNAMIC_DISPATCH(SumImpl)(n, x); }
void ReluPullback(int64_t n, const float* y, const float* ct_y, float* ct_x) {
  HWY_DYNAMIC_DISPATCH(ReluPullbackImpl)(n, y, ct_y, ct_x);
}

}  // namespace jacserve::worker::cpu
#endif
