#include "worker/engine/pullback_plan.h"

#include <algorithm>
#include <map>

namespace jacserve::worker {
namespace {

class Planner {
 public:
  Planner(SampleProgram& program, std::vector<BlockPlan> blocks) : program_(program) {
    plan_.blocks = std::move(blocks);
    plan_.has_cotangent.assign(program.values.size(), false);
    plan_.keep_value.assign(program.values.size(), false);
    plan_.keep_saved.assign(program.nodes.size(), false);
    reached_.assign(program.values.size(), false);
    for (size_t b = 0; b < plan_.blocks.size(); ++b) {
      const BlockPlan& block = plan_.blocks[b];
      const int value = program.sources[block.source].value;
      if (value < 0) continue;
      reached_[value] = true;
      if (program.sources[block.source].kind != SourceKind::kInput)
        block_of_source_[block.source] = static_cast<int>(b);
    }
  }

  PullbackPlan Run() {
    Reach();
    shared_cotangent_.assign(program_.values.size(), false);
    const int output = Root(program_.output);
    if (reached_[output]) plan_.has_cotangent[output] = true;
    written_.assign(program_.values.size(), false);
    written_[output] = true;
    for (int n = static_cast<int>(program_.nodes.size()) - 1; n >= 0; --n) {
      if (program_.nodes[n].batched) {
        PlanBatchedNode(n);
      } else {
        PlanSharedNode(n);
      }
    }
    MakeGroups();
    return std::move(plan_);
  }

 private:
  int Root(int value) const { return program_.values[value].root; }

  // Forward: which values depend on a wanted source, through inputs that have a derivative.
  void Reach() {
    for (const ProgramNode& node : program_.nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] < 0 || !reached_[Root(node.inputs[i])] || !node.op->DifferentiableIn(static_cast<int>(i))) {
          continue;
        }
        for (int output : node.outputs) {
          if (IsFloat(program_.values[output].dtype)) reached_[Root(output)] = true;
        }
      }
    }
  }

  bool Wanted(const ProgramNode& node, size_t i) const {
    return node.inputs[i] >= 0 && node.op->DifferentiableIn(static_cast<int>(i)) && reached_[Root(node.inputs[i])];
  }

  void Keep(int n, int input) {
    const ProgramNode& node = program_.nodes[n];
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      if (node.inputs[j] >= 0 && node.op->PullbackReadsInput(input, static_cast<int>(j))) {
        plan_.keep_value[Root(node.inputs[j])] = true;
      }
    }
    if (node.op->PullbackReadsOutput(input)) {
      for (int output : node.outputs) plan_.keep_value[Root(output)] = true;
    }
    if (node.op->PullbackReadsSaved(input)) plan_.keep_saved[n] = true;
  }

  void PlanBatchedNode(int n) {
    const ProgramNode& node = program_.nodes[n];
    const bool live = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](int output) { return plan_.has_cotangent[Root(output)]; });
    if (!live) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!Wanted(node, i)) continue;
      const int input = static_cast<int>(i), root = Root(node.inputs[i]);
      Keep(n, input);
      if (program_.values[node.inputs[i]].batched) {
        plan_.has_cotangent[root] = true;
        plan_.steps.push_back({n, input, written_[root]});
        written_[root] = true;
      } else {
        from_batched_.push_back(Target(n, input));
        if (from_batched_.back().block >= 0) node.op->PreferRows(input, from_batched_.back().view);
      }
    }
  }

  void PlanSharedNode(int n) {
    const ProgramNode& node = program_.nodes[n];
    const bool live = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](int output) { return shared_cotangent_[Root(output)]; });
    if (!live) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!Wanted(node, i)) continue;
      Keep(n, static_cast<int>(i));
      from_shared_.push_back(Target(n, static_cast<int>(i)));
    }
  }

  // Where the rows of this shared input go: straight into the block that it is a view of, or into a buffer.
  RowStep Target(int n, int input) {
    const int value = program_.nodes[n].inputs[input];
    RowStep step{.node = n, .input = input};
    if (const auto& view = program_.views[value]; view.has_value() && block_of_source_.contains(view->first)) {
      step.block = block_of_source_.at(view->first);
      step.view = view->second;
      return step;
    }
    step.value = Root(value);
    shared_cotangent_[step.value] = true;
    return step;
  }

  void MakeGroups() {
    std::vector<bool> chained(plan_.blocks.size(), false);
    for (const RowStep& step : from_shared_) {
      if (step.block >= 0) chained[step.block] = true;
    }
    EmissionGroup chain;
    for (size_t b = 0; b < plan_.blocks.size(); ++b) {
      const int block = static_cast<int>(b);
      const ProgramSource& source = program_.sources[plan_.blocks[b].source];
      EmissionGroup group{.blocks = {block}};
      if (source.kind == SourceKind::kInput) {
        group.input = true;
        plan_.blocks[b].connected = source.value >= 0 && plan_.has_cotangent[Root(source.value)];
      } else if (chained[b]) {
        chain.blocks.push_back(block);
        plan_.blocks[b].connected = true;
        continue;
      } else {
        for (const RowStep& step : from_batched_) {
          if (step.block == block) group.from_batched.push_back(step);
        }
        plan_.blocks[b].connected = !group.from_batched.empty();
      }
      if (plan_.blocks[b].connected) plan_.groups.push_back(std::move(group));
    }
    if (chain.blocks.empty()) return;
    for (const RowStep& step : from_batched_) {
      if (step.block < 0 || chained[step.block]) chain.from_batched.push_back(step);
    }
    chain.from_shared = from_shared_;
    for (size_t v = 0; v < shared_cotangent_.size(); ++v) {
      if (shared_cotangent_[v]) chain.shared_values.push_back(static_cast<int>(v));
    }
    plan_.groups.push_back(std::move(chain));
  }

  SampleProgram& program_;
  PullbackPlan plan_;
  std::map<int, int> block_of_source_;
  std::vector<bool> reached_;           // by root
  std::vector<bool> shared_cotangent_;  // by root: gathers rows in a buffer
  std::vector<bool> written_;
  std::vector<RowStep> from_batched_, from_shared_;
};

// The first step into each block or buffer writes, the others add.
void MarkAccumulation(EmissionGroup& group) {
  std::map<std::pair<int, int>, bool> written;
  for (auto* steps : {&group.from_batched, &group.from_shared}) {
    for (RowStep& step : *steps) {
      bool& there = written[{step.block, step.value}];
      step.accumulate = there;
      there = true;
    }
  }
}

}  // namespace

PullbackPlan PlanPullbacks(SampleProgram& program, std::vector<BlockPlan> blocks) {
  PullbackPlan plan = Planner(program, std::move(blocks)).Run();
  for (EmissionGroup& group : plan.groups) MarkAccumulation(group);
  return plan;
}

}  // namespace jacserve::worker
