// The refusal of a memory budget, with the smallest workable one in words and as a number that a caller can read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/size_text.h"

namespace jacserve::worker {

constexpr char kSmallestBudgetPayload[] = "jacserve.smallest_budget_bytes";

inline absl::Status BudgetTooSmall(int64_t budget_bytes, int64_t smallest_bytes) {
  absl::Status status = absl::ResourceExhaustedError(absl::StrCat(
      "a memory budget of ", SizeText(budget_bytes), " is too small for this request; the smallest that works is ",
      SizeText(smallest_bytes), " (", smallest_bytes, " bytes)"));
  status.SetPayload(kSmallestBudgetPayload, absl::Cord(absl::StrCat(smallest_bytes)));
  return status;
}

// Of a status made by BudgetTooSmall; nullopt for any other.
inline std::optional<int64_t> SmallestBudgetOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kSmallestBudgetPayload);
  int64_t bytes = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace jacserve::worker
