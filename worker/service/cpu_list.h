// Which cores a worker runs on. In: "0-3,8". Out: the cores as numbers, and every thread of this process bound to them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace jacserve::worker {

// In ascending order, without repeats. InvalidArgument: not a list of cores.
absl::StatusOr<std::vector<int>> ParseCpuList(std::string_view text);

// Binds all threads that exist, those that libraries started at load time among them, and so all that follow.
// InvalidArgument: cores that this process may not run on.
absl::Status PinToCpus(const std::vector<int>& cpus);

// Cores that this process may run on.
int UsableCpus();

}  // namespace jacserve::worker
