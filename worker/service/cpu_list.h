// Which cores a worker runs on. In: cores. Out: every thread of this process bound to them.
#pragma once

#include <vector>

#include "absl/status/status.h"

namespace jacserve::worker {

// Binds all threads that exist, those that libraries started at load time among them, and so all that follow.
// InvalidArgument: cores that this process may not run on.
absl::Status PinToCpus(const std::vector<int>& cpus);

// Cores that this process may run on.
int UsableCpus();

}  // namespace jacserve::worker
