#include "client/cpp/verify/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/status.h"

namespace jacserve::client {
namespace {

constexpr double kAlwaysAllowed = 1e-12;
constexpr int64_t kRun = 1024;

// Numbers [begin, begin + out.size()) of a float array.
void ReadDoubles(const Array& array, int64_t begin, std::span<double> out) {
  if (array.dtype == DType::kFloat64) {
    std::memcpy(out.data(), array.bytes.data() + begin * int64_t{sizeof(double)}, out.size_bytes());
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    float value;
    std::memcpy(&value, array.bytes.data() + (begin + static_cast<int64_t>(i)) * int64_t{sizeof(float)}, sizeof(float));
    out[i] = static_cast<double>(value);
  }
}

}  // namespace

Comparison::Comparison(Array expected, double scale)
    : expected_(std::move(expected)), elements_(Elements(expected_.shape)), scale_(scale), buffer_(kRun) {
  JACSERVE_CHECK(IsFloat(expected_.dtype));
  for (int64_t begin = 0; begin < elements_; begin += kRun) {
    const std::span<double> run(buffer_.data(), static_cast<size_t>(std::min(kRun, elements_ - begin)));
    ReadDoubles(expected_, begin, run);
    for (double value : run) scale_ = std::max(scale_, std::abs(value));  // a NaN is left out, and fails when compared
  }
}

void Comparison::Compare(int64_t begin, std::span<const double> actual) {
  while (!actual.empty()) {
    const std::span<double> run(buffer_.data(), std::min<size_t>(kRun, actual.size()));
    ReadDoubles(expected_, begin, run);
    for (size_t i = 0; i < run.size(); ++i) {
      const double difference = std::abs(actual[i] - run[i]);
      worst_ = std::max(worst_, difference);
      nan_ |= std::isnan(difference);
    }
    begin += static_cast<int64_t>(run.size());
    actual = actual.subspan(run.size());
  }
}

double Comparison::worst() const {
  if (nan_) return std::numeric_limits<double>::infinity();
  if (worst_ <= kAlwaysAllowed) return scale_ > 0 ? worst_ / scale_ : 0.0;
  return worst_ / scale_;
}

bool Comparison::Passes(double tolerance) const {
  return !nan_ && worst_ <= std::max(tolerance * scale_, kAlwaysAllowed);
}

}  // namespace jacserve::client
