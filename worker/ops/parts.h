// Operators whose outputs are put together from strided parts of their inputs: y = the parts, zero elsewhere; the
// pullback sends each part's cotangent back to where it came from. On constants (the arithmetic of shapes) they are
// folded.
#pragma once

#include <vector>

#include "worker/ops/op.h"

namespace jacserve::worker {

// y[output][p . y_strides + y_offset] = x[input][p . x_strides + x_offset] for p in shape. No element of an output is
// in two parts.
struct Part {
  int input = 0;
  Shape shape, x_strides, y_strides;
  int64_t x_offset = 0, y_offset = 0;
  int output = 0;
};

class PartsOp : public Op {
 public:
  // From shapes of inputs and outputs, after they were inferred without an error.
  virtual std::vector<Part> Parts(const InputFacts& facts, const std::vector<Shape>& in,
                                  const std::vector<Shape>& out) const = 0;

  // No element of an input is in two parts, or twice in one.
  virtual bool EachElementOnce() const { return true; }

  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override;
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override;
  bool PullbackReadsInput(int, int) const override { return false; }
  bool HasPushforward() const override { return true; }

  void Forward(const ForwardArgs& args) const override;
  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override;
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override;

 private:
  void Copy(int64_t lanes, const std::vector<ConstLanes>& x, const std::vector<Lanes>& y, const Backend& backend) const;

  std::vector<Part> parts_;
};

}  // namespace jacserve::worker
