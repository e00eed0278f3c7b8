// What is said before a program is made: tensors that do not fit the graph, operators without rules.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

// InvalidArgument: bound tensors against what the graph declares, every name at once.
absl::Status CheckBindings(const Graph& graph, const Bindings& bindings);
// Unimplemented: every operator without rules, how often it occurs and where.
absl::Status CheckOperators(const Graph& graph, const std::vector<const GraphNode*>& nodes);

}  // namespace jacserve::worker
