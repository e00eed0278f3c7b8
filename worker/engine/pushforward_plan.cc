#include "worker/engine/pushforward_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/engine/pushforward_tile.h"

namespace jacserve::worker {
namespace {

class Planner {
 public:
  Planner(const SampleProgram& program, const PullbackPlan& pullbacks) : program_(program), pullbacks_(pullbacks) {
    plan_.moves.assign(program.values.size(), false);
  }

  absl::StatusOr<PushforwardPlan> Run() {
    for (const EmissionGroup& group : pullbacks_.groups) {
      const ProgramSource& source = program_.sources[pullbacks_.blocks[group.blocks[0]].source];
      plan_.moves[program_.values[source.value].root] = true;
    }
    for (size_t n = 0; n < program_.nodes.size(); ++n) {
      const ProgramNode& node = program_.nodes[n];
      if (!node.batched || !Moves(node)) continue;
      if (!node.op->HasPushforward()) {
        return absl::UnimplementedError(absl::StrCat("node ", node.name, " (", node.op_type, ") has no pushforward"));
      }
      for (int output : node.outputs) {
        const int root = program_.values[output].root;
        if (pullbacks_.has_cotangent[root]) plan_.moves[root] = true;
      }
      plan_.nodes.push_back(static_cast<int>(n));
    }
    return std::move(plan_);
  }

 private:
  // Does an input with a tangent reach an output that matters?
  bool Moves(const ProgramNode& node) const {
    const bool matters = std::any_of(node.outputs.begin(), node.outputs.end(), [&](int output) {
      return pullbacks_.has_cotangent[program_.values[output].root];
    });
    for (size_t i = 0; matters && i < node.inputs.size(); ++i) {
      const bool moves = node.inputs[i] >= 0 && plan_.moves[program_.values[node.inputs[i]].root];
      if (moves && node.op->DifferentiableIn(static_cast<int>(i))) return true;
    }
    return false;
  }

  const SampleProgram& program_;
  const PullbackPlan& pullbacks_;
  PushforwardPlan plan_;
};

}  // namespace

absl::StatusOr<PushforwardPlan> PlanPushforwards(const SampleProgram& program, const PullbackPlan& plan,
                                                 bool pairwise) {
  if (pairwise) return absl::UnimplementedError("a pairwise target is pulled back");
  if (program.output_batch_axis > 0 || program.output_before_samples > 1) {
    return absl::UnimplementedError("the samples are not the output's first axis");
  }
  for (const EmissionGroup& group : plan.groups) {
    if (!group.input) return absl::UnimplementedError("only batched inputs have tangents");
  }
  return Planner(program, plan).Run();
}

bool PushforwardsCostLess(const SampleProgram& program, const PullbackPlan& plan) {
  const int64_t outputs = program.values[program.output].elements;
  int64_t inputs = 0, largest = 0;
  for (const EmissionGroup& group : plan.groups) {
    const int value = program.sources[plan.blocks[group.blocks[0]].source].value;
    inputs += program.values[value].elements;
    largest = std::max(largest, program.values[value].elements);
  }
  return inputs < outputs && largest * outputs <= kLargestSampleJacobian;
}

}  // namespace jacserve::worker
