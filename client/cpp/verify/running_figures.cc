// Built once for each instruction set that the processor may have; the best one is chosen when it runs.
#include "client/cpp/verify/running_figures.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "client/cpp/verify/running_figures.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace jacserve::client::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sums: {sum x^2, sum x, sum x cos_b, sum x sin_b}. Two accumulators each hide the latency of the additions.
void SumRun(const double* x, const double* cos_b, const double* sin_b, int64_t count, double* sums) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto squares0 = hn::Zero(d), total0 = hn::Zero(d), cosines0 = hn::Zero(d), sines0 = hn::Zero(d);
  auto squares1 = hn::Zero(d), total1 = hn::Zero(d), cosines1 = hn::Zero(d), sines1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + lanes);
    squares0 = hn::MulAdd(a, a, squares0);
    squares1 = hn::MulAdd(b, b, squares1);
    total0 = hn::Add(a, total0);
    total1 = hn::Add(b, total1);
    cosines0 = hn::MulAdd(a, hn::LoadU(d, cos_b + i), cosines0);
    cosines1 = hn::MulAdd(b, hn::LoadU(d, cos_b + i + lanes), cosines1);
    sines0 = hn::MulAdd(a, hn::LoadU(d, sin_b + i), sines0);
    sines1 = hn::MulAdd(b, hn::LoadU(d, sin_b + i + lanes), sines1);
  }
  sums[0] = hn::GetLane(hn::SumOfLanes(d, hn::Add(squares0, squares1)));
  sums[1] = hn::GetLane(hn::SumOfLanes(d, hn::Add(total0, total1)));
  sums[2] = hn::GetLane(hn::SumOfLanes(d, hn::Add(cosines0, cosines1)));
  sums[3] = hn::GetLane(hn::SumOfLanes(d, hn::Add(sines0, sines1)));
  for (; i < count; ++i) {
    sums[0] += x[i] * x[i];
    sums[1] += x[i];
    sums[2] += x[i] * cos_b[i];
    sums[3] += x[i] * sin_b[i];
  }
}

void Widen(const float* in, int64_t count, double* out) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::PromoteTo(d, hn::LoadU(narrow, in + i)), d, out + i);
  for (; i < count; ++i) out[i] = static_cast<double>(in[i]);
}

}  // namespace jacserve::client::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <array>

#include "common/status.h"

namespace jacserve::client {
namespace {

HWY_EXPORT(SumRun);
HWY_EXPORT(Widen);

constexpr double kStep = 0.7;
constexpr double kStart = 1.0;

struct Tables {
  std::array<double, kLongestRun> cosines, sines;  // of kStep * k
  Tables() {
    for (int64_t k = 0; k < kLongestRun; ++k) {
      cosines[k] = std::cos(kStep * static_cast<double>(k));
      sines[k] = std::sin(kStep * static_cast<double>(k));
    }
  }
};

}  // namespace

void RunningFigures::Add(int64_t row, int64_t column_begin, std::span<const double> values) {
  static const Tables tables;
  const auto count = static_cast<int64_t>(values.size());
  JACSERVE_CHECK(count <= kLongestRun);
  double sums[4];
  HWY_DYNAMIC_DISPATCH(SumRun)(values.data(), tables.cosines.data(), tables.sines.data(), count, sums);
  const double phase = kStep * static_cast<double>(column_begin) + kStart;
  squares_[row] += sums[0];
  sums_[row] += sums[1];
  dots_[row] += std::sin(phase) * sums[2] + std::cos(phase) * sums[3];
}

double RunningFigures::norm(int64_t row) const { return std::sqrt(squares_[row]); }

void ToDoubles(std::span<const float> in, double* out) {
  HWY_DYNAMIC_DISPATCH(Widen)(in.data(), static_cast<int64_t>(in.size()), out);
}

}  // namespace jacserve::client
#endif
