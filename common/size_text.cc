#include "common/size_text.h"

#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace jacserve {
namespace {

struct Unit {
  std::string_view lower_name;
  double bytes;
};

constexpr std::array<Unit, 10> kUnits = {{
    {"", 1.0},
    {"b", 1.0},
    {"kib", 1024.0},
    {"mib", 1048576.0},
    {"gib", 1073741824.0},
    {"tib", 1099511627776.0},
    {"kb", 1e3},
    {"mb", 1e6},
    {"gb", 1e9},
    {"tb", 1e12},
}};

absl::Status NotASize(std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(text), "' is not a size; write for example 512MiB, 1.5GB or 4096 (bytes)"));
}

}  // namespace

absl::StatusOr<int64_t> ParseSize(std::string_view text) {
  const size_t unit_begin = text.find_first_not_of("0123456789.");
  const std::string number(text.substr(0, unit_begin));
  const std::string rest(unit_begin == std::string_view::npos ? std::string_view() : text.substr(unit_begin));
  const std::string unit_name = absl::AsciiStrToLower(absl::StripLeadingAsciiWhitespace(rest));

  // A count of bytes is exact up to 2^63, beyond what a double can hold.
  int64_t whole = 0;
  const bool is_whole = absl::SimpleAtoi(number, &whole);
  double value = 0;
  if (number.empty() || !absl::SimpleAtod(number, &value)) return NotASize(text);
  for (const Unit& unit : kUnits) {
    if (unit.lower_name != unit_name) continue;
    if (is_whole && unit.bytes == 1.0) {
      if (whole <= 0) return NotASize(text);
      return whole;
    }
    const double bytes = std::floor(value * unit.bytes);
    if (!(bytes >= 1.0) || bytes >= static_cast<double>(std::numeric_limits<int64_t>::max())) return NotASize(text);
    return static_cast<int64_t>(bytes);
  }
  return NotASize(text);
}

std::string SizeText(int64_t bytes) {
  constexpr std::array<const char*, 4> kNames = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  if (std::abs(value) < 1024.0) return absl::StrCat(bytes, " B");
  size_t name = 0;
  value /= 1024.0;
  // 1023.95 would print as 1024.0.
  while (std::abs(value) >= 1023.95 && name + 1 < kNames.size()) {
    value /= 1024.0;
    ++name;
  }
  return absl::StrFormat("%.1f %s", value, kNames[name]);
}

std::string DurationText(double seconds) {
  if (!(seconds >= 0) || seconds > 1e15) return "unknown";
  if (seconds < 9.995) return absl::StrFormat("%.2f s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return absl::StrFormat("%d s", whole);
  if (whole < 3600) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %02d min", whole / 3600, whole / 60 % 60);
}

absl::StatusOr<int> ParsePercent(const std::string& text) {
  int percent = 0;
  if (!text.empty() && text.back() == '%' && absl::SimpleAtoi(text.substr(0, text.size() - 1), &percent) &&
      percent >= 1 && percent <= 100) {
    return percent;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no percentage from 1% to 100%"));
}

absl::Status CheckSizeOrPercent(const std::string& text) {
  return !text.empty() && text.back() == '%' ? ParsePercent(text).status() : ParseSize(text).status();
}

}  // namespace jacserve
