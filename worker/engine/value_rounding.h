// Where a 16-bit computation mode rounds: every float value between operators, forward and backward. Not the sums
// inside an operator, and not the rows. In: values as they are written. Out: the same, rounded, and what was lost.
#pragma once

#include <atomic>
#include <optional>

#include "worker/backend/backend.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

class ValueRounding {
 public:
  ValueRounding(const Backend& backend, std::optional<HalfFormat> format) : backend_(backend), format_(format) {}

  bool rounds() const { return format_.has_value(); }
  // Integers and truth values stay what they are. Called from any thread.
  void Round(const ProgramValue& value, int64_t lanes, Lanes x) const {
    if (!format_ || x.data == nullptr || !IsFloat(value.dtype)) return;
    const HalfLoss loss = backend_.RoundToHalf(*format_, lanes, value.elements, x);
    underflows_ += loss.underflows;
    overflows_ += loss.overflows;
  }
  HalfLoss loss() const { return {underflows_, overflows_}; }

 private:
  const Backend& backend_;
  const std::optional<HalfFormat> format_;
  mutable std::atomic<int64_t> underflows_ = 0, overflows_ = 0;
};

}  // namespace jacserve::worker
