// Whether tangents pushed forward give the rows for less than cotangents pulled back, and along which nodes.
// A sample's block of the Jacobian, [outputs, inputs], costs a pullback per output or a pushforward per input element.
// In: the program and what is wanted. Out: the nodes that tangents pass through. Pure arithmetic on the program.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/pullback_plan.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

struct PushforwardPlan {
  std::vector<int> nodes;   // batched nodes, in order
  std::vector<bool> moves;  // per value: the root of one with a tangent
};

// Unimplemented, with the reason: a pairwise target, parameters or shared inputs are wanted too, an operator on the way
// has no pushforward, or the batch is not the output's leading axis.
absl::StatusOr<PushforwardPlan> PlanPushforwards(const SampleProgram& program, const PullbackPlan& plan, bool pairwise);
// Are there fewer input elements than outputs, and few enough for a thread to hold their Jacobian?
bool PushforwardsCostLess(const SampleProgram& program, const PullbackPlan& plan);

}  // namespace jacserve::worker
