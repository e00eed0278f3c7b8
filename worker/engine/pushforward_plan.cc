#include "worker/engine/pushforward_plan.h"

#include <algorithm>

#include "worker/engine/pushforward_tile.h"

namespace jacserve::worker {
namespace {

class Planner {
 public:
  Planner(const SampleProgram& program, const PullbackPlan& pullbacks) : program_(program), pullbacks_(pullbacks) {
    plan_.moves.assign(program.values.size(), false);
  }

  std::optional<PushforwardPlan> Run() {
    for (const EmissionGroup& group : pullbacks_.groups) {
      const ProgramSource& source = program_.sources[pullbacks_.blocks[group.blocks[0]].source];
      plan_.moves[program_.values[source.value].root] = true;
    }
    for (size_t n = 0; n < program_.nodes.size(); ++n) {
      const ProgramNode& node = program_.nodes[n];
      if (!node.batched || !Moves(node)) continue;
      if (!node.op->HasPushforward()) return std::nullopt;
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

std::optional<PushforwardPlan> PlanPushforwards(const SampleProgram& program, const PullbackPlan& plan, bool pairwise) {
  if (pairwise || plan.groups.empty() || program.output_batch_axis > 0) return std::nullopt;
  const int64_t outputs = program.values[program.output].elements;
  int64_t inputs = 0, largest = 0;
  for (const EmissionGroup& group : plan.groups) {
    if (!group.input) return std::nullopt;
    const int64_t elements = program.values[program.sources[plan.blocks[group.blocks[0]].source].value].elements;
    inputs += elements;
    largest = std::max(largest, elements);
  }
  if (inputs >= outputs || largest * outputs > kLargestSampleJacobian) return std::nullopt;
  return Planner(program, plan).Run();
}

}  // namespace jacserve::worker
