// One log format for every program, on stderr; code logs through spdlog's own functions.
// In: the program's name and a level. Out: lines "2025-01-31T12:00:00.000Z info jacserve-worker[42] text".
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace jacserve {

// Call once in main, before the first log line. `level`: trace, debug, info, warning, error, off.
// InvalidArgument: another level.
absl::Status InitLogging(std::string_view program, std::string_view level);

}  // namespace jacserve
