// Runs a graph forward once on the engine's backends, and compares with the outputs that are right.
#pragma once

#include "absl/status/status.h"
#include "tests/worker/onnx_nodes/node_case.h"

namespace jacserve::worker {

// Every output on the reference and cpu backends, in float32 and float64; integers as values that are known when the
// graph is compiled and, where the operator can, as numbers. Unimplemented: a form that is refused, in the user's
// words. DataLoss: a wrong number, with what was expected.
absl::Status RunNodeCase(const NodeCase& node);

}  // namespace jacserve::worker
