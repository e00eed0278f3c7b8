// What operators that reduce axes share: which axes, and the shapes with and without them.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "worker/ops/op.h"

namespace jacserve::worker {

struct ReduceForm {
  std::optional<std::vector<int64_t>> axes;  // by attribute; else by input 1, else all
  bool keep = true;
  bool noop = false;  // no axes named: none instead of all
};
absl::StatusOr<ReduceForm> ReadReduceForm(const GraphNode& node);

class ReduceOp : public Op {
 public:
  // y of the numbers that are reduced into one; used to fold constants.
  using OfLine = std::function<double(const std::vector<double>&)>;

  ReduceOp(ReduceForm form, OfLine of_line) : form_(std::move(form)), of_line_(std::move(of_line)) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override;
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override;
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override;
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override;
  bool DifferentiableIn(int input) const override { return input == 0; }

 protected:
  absl::StatusOr<std::vector<int64_t>> Axes(const InputFacts& in) const;  // sorted, in [0, rank)

  std::vector<int64_t> axes_;
  Shape kept_;         // the input's shape with 1 along the reduced axes
  int64_t count_ = 1;  // numbers that are reduced into one

 private:
  ReduceForm form_;
  OfLine of_line_;
};

}  // namespace jacserve::worker
