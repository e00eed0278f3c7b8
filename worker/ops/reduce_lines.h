// Reductions that need the numbers of a line, those that are reduced into one, along one axis of [outer, n, inner].
// In: one lane at a time, brought into that form when the reduced axes do not lie side by side. Out: ReduceOp.
#pragma once

#include "worker/ops/reduce_axes.h"

namespace jacserve::worker {

class ReduceLines : public ReduceOp {
 public:
  using ReduceOp::ReduceOp;

  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override;
  bool PullbackReadsInput(int, int) const override { return true; }
  int64_t ScratchElements(const Backend& backend) const override;

  void Forward(const ForwardArgs& args) const override;
  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override;
  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override;

 protected:
  // One lane: x and the cotangent or tangent that belongs to it are [outer, n, inner], y is [outer, inner].
  struct Line {
    ConstLanes x, y;
    void* saved;
    const Backend& backend;
    Scratch& scratch;
  };
  virtual void Reduce(const Line& line, Lanes y) const = 0;
  virtual void Pull(const Line& line, ConstLanes ct_y, Lanes ct_x) const = 0;
  virtual void Push(const Line& line, ConstLanes tan_x, Lanes tan_y) const = 0;
  virtual int64_t LineScratch() const { return 0; }  // elements that each of those takes

  int64_t Size() const { return outer_ * n_ * inner_; }
  int64_t Lines() const { return outer_ * inner_; }
  Lanes Take(const Line& line, int64_t n) const;
  // y = the sum of x over lines.
  void SumLines(const Line& line, ConstLanes x, Lanes y) const;
  // Shape and strides of x, and of y repeated along the lines.
  Shape shape() const { return {outer_, n_, inner_}; }
  Shape own() const { return {n_ * inner_, inner_, 1}; }
  Shape repeated() const { return {inner_, 0, 1}; }

  int64_t outer_ = 1, n_ = 1, inner_ = 1;

 private:
  ConstLanes Arranged(ConstLanes x, const Backend& backend, Scratch& scratch) const;

  bool moved_ = false;
  Shape moved_shape_, moved_strides_;  // kept axes, then reduced ones, with the strides of x
};

}  // namespace jacserve::worker
