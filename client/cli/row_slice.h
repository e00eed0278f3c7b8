// The rows that --rows names, as numpy slices them. In: BEGIN:END. Out: rows of a target, once its size is known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/row_range.h"

namespace jacserve::client {

// A bound below 0 counts from the target's end; one that is left out is the target's own.
struct RowSlice {
  std::optional<int64_t> begin, end;

  friend bool operator==(const RowSlice&, const RowSlice&) = default;
};

// InvalidArgument: not BEGIN:END, or it ends before it begins. No slice: ":", all rows.
absl::StatusOr<std::optional<RowSlice>> ParseRowSlice(const std::string& text);

// The rows, where they do not depend on how many the target has.
std::optional<RowRange> KnownRows(const RowSlice& slice);

// OutOfRange: the target has no such rows.
absl::StatusOr<RowRange> RowsOf(const RowSlice& slice, int64_t target_rows);

}  // namespace jacserve::client
