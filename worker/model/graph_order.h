// Who makes each value of a graph: every name is made once, and nodes come after what they use.
#pragma once

#include "absl/status/status.h"
#include "worker/model/graph.h"

namespace jacserve::worker {

// Puts graph.nodes in order; nodes that are in order stay as they are. InvalidArgument: a value that is made twice,
// that nothing makes, or that is made from itself, with the names.
absl::Status OrderNodes(Graph& graph);

}  // namespace jacserve::worker
