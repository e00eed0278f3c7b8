// Where a 16-bit computation mode rounds: every float value between operators, forward and backward. Not the sums
// inside an operator, and not the rows. In: values as they are written. Out: the same, rounded, and what was lost.
#pragma once

#include <optional>

#include "common/status.h"
#include "worker/backend/backend.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

class ValueRounding {
 public:
  ValueRounding(const Backend& backend, std::optional<HalfFormat> format) : backend_(backend), format_(format) {}

  // Before the first Round, on a thread that entered the backend. ResourceExhausted: as Memory::Allocate.
  absl::Status Prepare() {
    if (!format_) return absl::OkStatus();
    const HalfLoss nothing;
    ASSIGN_OR_RETURN(loss_, backend_.memory().Allocate(sizeof nothing));
    backend_.memory().CopyIn(loss_.get(), &nothing, sizeof nothing);
    return backend_.memory().Wait();
  }

  bool rounds() const { return format_.has_value(); }
  // Integers and truth values stay what they are. Called from any thread.
  void Round(const ProgramValue& value, int64_t lanes, Lanes x) const {
    if (!format_ || x.data == nullptr || !IsFloat(value.dtype)) return;
    backend_.RoundToHalf(*format_, lanes, value.elements, x, static_cast<HalfLoss*>(loss_.get()));
  }
  // What was lost so far, on a thread that entered the backend.
  absl::StatusOr<HalfLoss> Loss() const {
    HalfLoss loss;
    if (loss_ == nullptr) return loss;
    backend_.memory().CopyOut(&loss, loss_.get(), sizeof loss);
    RETURN_IF_ERROR(backend_.memory().Wait());
    return loss;
  }

 private:
  const Backend& backend_;
  const std::optional<HalfFormat> format_;
  Buffer loss_;  // one HalfLoss, in the backend's memory
};

}  // namespace jacserve::worker
