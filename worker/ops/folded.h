// Operators whose outputs are known when the graph is compiled. What is folded is never run.
#pragma once

#include <vector>

#include "worker/ops/op.h"

namespace jacserve::worker {

class FoldedOp : public Op {
 public:
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts&, const std::vector<Facts>&) const override {
    return std::vector<int>{-1};
  }
  bool DifferentiableIn(int) const override { return false; }
  bool PullbackReadsInput(int, int) const override { return false; }
  void Forward(const ForwardArgs&) const override {}
  void Pullback(int, const PullbackArgs&, Lanes) const override {}
};

}  // namespace jacserve::worker
