// What is said before a program is made: tensors that do not fit the graph, operators without rules.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

// InvalidArgument: bound tensors against what the graph declares, every name at once; a weight that the graph lacks,
// but whose name misspells one that would then keep the file's own numbers.
absl::Status CheckBindings(const Graph& graph, const Bindings& bindings);

// What a user should be told of a request that fits: weights that the graph lacks. Checkpoints hold more than a graph
// needs, so they are no error.
std::vector<std::string> NoticesOf(const Graph& graph, const Bindings& bindings);

// Unimplemented: every operator without rules, how often it occurs and where.
absl::Status CheckOperators(const Graph& graph, const std::vector<const GraphNode*>& nodes);

}  // namespace jacserve::worker
