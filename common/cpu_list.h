// Lists of cores as people and the kernel write them. In: "0-3,8". Out: the cores as numbers.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace jacserve {

// In ascending order, without repeats. InvalidArgument: not a list of cores.
absl::StatusOr<std::vector<int>> ParseCpuList(std::string_view text);

}  // namespace jacserve
