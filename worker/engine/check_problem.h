// A problem's tensors against each other, before the graph is looked at.
#pragma once

#include "absl/status/statusor.h"
#include "worker/engine/engine.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

// InvalidArgument: names given twice, batches of different sizes, a second batch that does not match the first, bytes
// that do not match a shape, a target that is not one.
absl::StatusOr<Bindings> CheckProblem(const JacobianProblem& problem);

}  // namespace jacserve::worker
