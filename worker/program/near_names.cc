#include "worker/program/near_names.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"

namespace jacserve::worker {
namespace {

constexpr size_t kMostLetters = 200;  // of names longer than that only their ends are compared

// As frameworks write the same name: `Dense/kernel`, `dense.kernel`.
std::string Folded(std::string_view name) {
  std::string folded(name.substr(name.size() - std::min(name.size(), kMostLetters)));
  for (char& c : folded) c = absl::ascii_isalnum(c) ? absl::ascii_tolower(c) : '.';
  return folded;
}

std::string DigitsOf(const std::string& name) {
  std::string digits;
  std::copy_if(name.begin(), name.end(), std::back_inserter(digits), [](char c) { return absl::ascii_isdigit(c); });
  return digits;
}

bool IsTail(const std::string& tail, const std::string& whole) {
  return whole.size() > tail.size() && whole.ends_with(tail) && whole[whole.size() - tail.size() - 1] == '.';
}

// Letters to insert, delete or replace (Levenshtein).
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

// 0: respelt; otherwise the letters that differ.
size_t Difference(const std::string& a, const std::string& b) {
  return a == b || IsTail(a, b) || IsTail(b, a) ? 0 : Distance(a, b);
}

}  // namespace

bool IsNameRespelt(std::string_view name, std::string_view known) {
  const std::string a = Folded(name), b = Folded(known);
  const size_t difference = Difference(a, b);
  return difference == 0 || (difference <= 2 && std::min(a.size(), b.size()) > 4 && DigitsOf(a) == DigitsOf(b));
}

std::string NearestName(std::string_view name, const std::vector<std::string>& known) {
  const std::string folded = Folded(name);
  std::string nearest;
  size_t least = folded.size() / 3 + 1;  // as many letters off are another name
  for (const std::string& candidate : known) {
    const size_t difference = Difference(folded, Folded(candidate));
    if (difference < least || (difference == 0 && nearest.empty())) {
      least = difference;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace jacserve::worker
