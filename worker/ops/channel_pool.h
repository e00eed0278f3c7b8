// Pools whose windows slide over each channel by itself: shapes, the batch axis and the geometry, once for all of them.
#pragma once

#include "worker/ops/window.h"

namespace jacserve::worker {

class ChannelPool : public Op {
 public:
  explicit ChannelPool(WindowAttributes window) : window_(std::move(window)) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override;
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override;
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override;
  bool PullbackReadsInput(int, int) const override { return false; }
  bool HasPushforward() const override { return true; }

 protected:
  WindowGeometry g_;  // set by Bind; images of one sample are channels: a window never leaves its own

 private:
  WindowAttributes window_;
};

}  // namespace jacserve::worker
