// Whether tangents pushed forward give the rows for less than cotangents pulled back, and along which nodes.
// A sample's block of the Jacobian, [outputs, inputs], costs a pullback per output or a pushforward per input element.
// In: the program and what is wanted. Out: the nodes that tangents pass through. Pure arithmetic on the program.
#pragma once

#include <optional>
#include <vector>

#include "worker/engine/pullback_plan.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

struct PushforwardPlan {
  std::vector<int> nodes;   // batched nodes, in order
  std::vector<bool> moves;  // per value: the root of one with a tangent
};

// None: a pairwise target, parameters or shared inputs are wanted too, an operator on the way has no pushforward,
// there are at least as many input elements as outputs, or the batch is not the output's leading axis.
std::optional<PushforwardPlan> PlanPushforwards(const SampleProgram& program, const PullbackPlan& plan, bool pairwise);

}  // namespace jacserve::worker
