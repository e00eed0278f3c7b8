#include "worker/service/cpu_list.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status.h"

namespace jacserve::worker {
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
