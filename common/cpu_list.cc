#include "common/cpu_list.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace jacserve {
namespace {

// "3" or "0-3"; the end is inclusive.
bool ParseRange(const std::string& text, int& begin, int& end) {
  const std::vector<std::string> ends = absl::StrSplit(text, '-');
  if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &begin) || !absl::SimpleAtoi(ends.back(), &end)) return false;
  return begin >= 0 && begin <= end && end < CPU_SETSIZE;
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), ',');
  for (const std::string& part : parts) {
    int begin = 0;
    int end = 0;
    if (!ParseRange(part, begin, end)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", std::string(text), "' is not a list of cores; write for example 0-3,8"));
    }
    for (int cpu = begin; cpu <= end; ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

}  // namespace jacserve
