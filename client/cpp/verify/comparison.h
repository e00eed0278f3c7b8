// An expected array and the largest difference from it seen so far.
// In: the expected numbers, then runs of actual ones in any order. Out: the worst difference, and whether it is
// allowed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/cpp/array_io/array.h"

namespace jacserve::client {

class Comparison {
 public:
  // expected: float32 or float64. `scale`: a size of the numbers that differences are measured in; the largest absolute
  // expected value counts too when it is greater.
  explicit Comparison(Array expected, double scale = 0.0);

  // actual: elements [begin, begin + actual.size()) of the array.
  void Compare(int64_t begin, std::span<const double> actual);

  int64_t elements() const { return elements_; }
  double scale() const { return scale_; }

  // Largest difference so far over the scale; infinite when a number was NaN, on either side.
  double worst() const;

  // Whether every difference is at most `tolerance` times the scale; differences below 1e-12 are always allowed.
  bool Passes(double tolerance) const;

 private:
  Array expected_;
  int64_t elements_ = 0;
  double scale_ = 0;
  double worst_ = 0;
  bool nan_ = false;
  std::vector<double> buffer_;
};

}  // namespace jacserve::client
