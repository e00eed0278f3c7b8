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

namespace jacserve {

constexpr char kSmallestBudgetPayload[] = "jacserve.smallest_budget_bytes";
constexpr char kNeededByPayload[] = "jacserve.budget_needed_by";

// `needed_by`: what takes the memory, in words; may be empty.
inline absl::Status BudgetTooSmall(int64_t budget_bytes, int64_t smallest_bytes, const std::string& needed_by = "") {
  absl::Status status = absl::ResourceExhaustedError(absl::StrCat(
      "a memory budget of ", SizeText(budget_bytes), " is too small for this request; the smallest that works is ",
      SizeText(smallest_bytes), " (", smallest_bytes, " bytes)", needed_by.empty() ? "" : "; ", needed_by));
  status.SetPayload(kSmallestBudgetPayload, absl::Cord(absl::StrCat(smallest_bytes)));
  if (!needed_by.empty()) status.SetPayload(kNeededByPayload, absl::Cord(needed_by));
  return status;
}

// Of a status made by BudgetTooSmall; nullopt for any other.
inline std::optional<int64_t> SmallestBudgetOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kSmallestBudgetPayload);
  int64_t bytes = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &bytes)) return std::nullopt;
  return bytes;
}

inline std::string NeededByOf(const absl::Status& status) {
  return std::string(status.GetPayload(kNeededByPayload).value_or(absl::Cord()));
}

}  // namespace jacserve
