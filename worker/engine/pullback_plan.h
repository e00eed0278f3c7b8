// Which pullbacks run, in which order, and where each one's result goes. Pure arithmetic on the program.
// In: the program and the sources to differentiate with respect to. Out: steps that the engine runs for every tile.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/engine.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

// One block of columns: a weight or shared input, or one batch of a batched input.
struct BlockPlan {
  std::string name;
  int source = -1;
  bool second_batch = false;
  bool connected = false;
};

// Cotangent of a batched value from a batched node: lanes are terms.
struct PullbackStep {
  int node = 0;
  int input = 0;
  bool accumulate = false;  // a later consumer wrote it already
};

// Rows of a shared value. From a batched node the terms of a row are summed (PullbackToRows); from a node that runs
// once, rows are the lanes. They go to a block, through the view that the value is of it, or to a buffer of the group.
struct RowStep {
  int node = 0;
  int input = 0;
  int block = -1;  // -1: into the cotangent of shared value `value`
  int value = -1;
  StridedView view;
  bool accumulate = false;
};

// Blocks whose rows are made together: one block by itself, unless shared values that are no plain views tie several.
struct EmissionGroup {
  std::vector<int> blocks;
  bool input = false;  // one block of a batched input: its cotangents, placed at their samples
  std::vector<RowStep> from_batched;
  std::vector<RowStep> from_shared;  // after from_batched, in order
  std::vector<int> shared_values;    // that need a cotangent buffer
};

struct PullbackPlan {
  std::vector<BlockPlan> blocks;
  std::vector<PullbackStep> steps;
  std::vector<EmissionGroup> groups;  // connected blocks only
  std::vector<bool> has_cotangent;    // per value: the root of a batched value with a cotangent
  std::vector<bool> keep_value;       // per value: a batched root that a pullback reads
  std::vector<bool> keep_saved;       // per node
};

// Blocks in the order of the request or the graph. InvalidArgument: a name or pattern that matches nothing, an input
// of integers.
absl::StatusOr<std::vector<BlockPlan>> SelectBlocks(const SampleProgram& program, const JacobianProblem& problem);

// Also tells each operator in which layout its rows are wanted (Op::PreferRows).
PullbackPlan PlanPullbacks(SampleProgram& program, std::vector<BlockPlan> blocks);

}  // namespace jacserve::worker
