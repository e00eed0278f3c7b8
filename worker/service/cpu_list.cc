#include "worker/service/cpu_list.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status.h"

namespace jacserve::worker {
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

absl::Status PinToCpus(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    int thread = 0;
    if (!absl::SimpleAtoi(task.path().filename().string(), &thread)) continue;
    if (sched_setaffinity(thread, sizeof(set), &set) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot run on the cores ", absl::StrJoin(cpus, ","), "; choose among those of this machine"));
    }
  }
  return absl::OkStatus();
}

int UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(CPU_COUNT(&set), 1);
}

}  // namespace jacserve::worker
