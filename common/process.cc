#include "common/process.h"

#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace jacserve {
namespace {

// The text after the colon in the first line of `file` whose name is `key`; empty when there is none.
std::string FieldOf(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    if (absl::StripAsciiWhitespace(line.substr(0, colon)) == key) {
      return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    }
  }
  return "";
}

// A field of this process's status that is given in kB.
int64_t StatusBytes(const std::string& key) {
  const std::string kibibytes = FieldOf("/proc/self/status", key);
  int64_t value = 0;
  const bool known = absl::SimpleAtoi(kibibytes.substr(0, kibibytes.find(' ')), &value);
  return known ? value * 1024 : 0;
}

}  // namespace

void TuneAllocator(const AllocatorOptions& options) {
  constexpr int64_t kTopPadBytes = 64 << 20;
  constexpr int64_t kLargestOption = 2'000'000'000;  // mallopt takes an int
  const int64_t keep_bytes = std::clamp<int64_t>(options.keep_bytes, 1, kLargestOption);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, static_cast<int>(keep_bytes));
  mallopt(M_TOP_PAD, static_cast<int>(std::min(keep_bytes, kTopPadBytes)));
  if (options.arenas > 0) mallopt(M_ARENA_MAX, options.arenas);
}

void ReleaseFreeMemory() { malloc_trim(0); }

int64_t PeakRssBytes() { return StatusBytes("VmHWM"); }
int64_t RssBytes() { return StatusBytes("VmRSS"); }

std::string ProcessorName() {
  const std::string name = FieldOf("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown processor" : name;
}

void DieWithParent(int64_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (parent != 0 && getppid() != parent) std::_Exit(EXIT_FAILURE);
}

}  // namespace jacserve
