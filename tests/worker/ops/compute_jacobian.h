// Whole Jacobians in memory, and values of moved problems, for tests that compare them.
#pragma once

#include <string>
#include <vector>

#include "worker/engine/engine.h"

namespace jacserve::worker {

struct Jacobian {
  JacobianLayout layout;
  std::vector<double> value;
  std::vector<std::vector<double>> blocks;  // C order of [rows] + block shape
};

// Fails the test when the engine refuses.
Jacobian Compute(JacobianProblem problem, BackendKind backend, DType precision,
                 Direction direction = Direction::kByCost);

// The target's value in float64 on the reference backend.
std::vector<double> ValueOf(JacobianProblem problem);

// The tensor of the block with this name; "second.x" is that of the second batch. Null: none.
HostTensor* Tensor(JacobianProblem& problem, const std::string& name);

// Every float tensor as float64, so that some may be moved a little.
JacobianProblem Widened(JacobianProblem problem);
// `tensor`, float64, plus `by` times `direction`, C order.
HostTensor Moved(const HostTensor& tensor, const std::vector<double>& direction, double by);

}  // namespace jacserve::worker
