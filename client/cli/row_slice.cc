#include "client/cli/row_slice.h"

#include "absl/strings/numbers.h"
#include "client/cpp/text.h"

namespace jacserve::client {
namespace {

bool ReadBound(const std::string& text, std::optional<int64_t>& bound) {
  return text.empty() || absl::SimpleAtoi(text, &bound.emplace());
}

}  // namespace

absl::StatusOr<std::optional<RowSlice>> ParseRowSlice(const std::string& text) {
  const size_t colon = text.find(':');
  RowSlice slice;
  if (colon == std::string::npos || !ReadBound(text.substr(0, colon), slice.begin) ||
      !ReadBound(text.substr(colon + 1), slice.end)) {
    return absl::InvalidArgumentError(Cat("'", text, "' is not BEGIN:END, as 0:100, :100, 100: or -100:"));
  }
  const std::optional<RowRange> known = KnownRows(slice);
  if (known && known->count < 0) return absl::InvalidArgumentError(Cat("'", text, "' ends before it begins"));
  if (!slice.begin && !slice.end) return std::nullopt;
  return slice;
}

std::optional<RowRange> KnownRows(const RowSlice& slice) {
  const int64_t begin = slice.begin.value_or(0), end = slice.end.value_or(-1);
  if (begin < 0 || end < 0) return std::nullopt;
  return RowRange{begin, end - begin};
}

absl::StatusOr<RowRange> RowsOf(const RowSlice& slice, int64_t target_rows) {
  int64_t begin = slice.begin.value_or(0), end = slice.end.value_or(target_rows);
  if (begin < 0) begin += target_rows;
  if (end < 0) end += target_rows;
  if (begin < 0 || begin > end || end > target_rows) {
    const auto text = [](std::optional<int64_t> bound) { return bound ? Cat(*bound) : std::string(); };
    return absl::OutOfRangeError(
        Cat("--rows ", text(slice.begin), ":", text(slice.end), " of a target with ", target_rows, " rows"));
  }
  return RowRange{begin, end - begin};
}

}  // namespace jacserve::client
