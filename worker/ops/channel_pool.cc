#include "worker/ops/channel_pool.h"

#include "common/status.h"

namespace jacserve::worker {

absl::StatusOr<std::vector<Facts>> ChannelPool::InferShapes(const InputFacts& in) const {
  if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
  ASSIGN_OR_RETURN(const WindowGeometry g, window_.Geometry(in[0].shape, window_.kernel_shape()));
  return std::vector<Facts>{{in[0].dtype, WindowOutputShape(in[0].shape, in[0].shape[1], g.out)}};
}

absl::StatusOr<std::vector<int>> ChannelPool::FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const {
  if (in[0].batch_axis > 1) return MixesSamples("it slides over the samples");
  return std::vector<int>{in[0].batch_axis};
}

absl::Status ChannelPool::Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) {
  RETURN_IF_ERROR(Op::Bind(facts, in, out));
  ASSIGN_OR_RETURN(g_, window_.Geometry(in[0], window_.kernel_shape()));
  g_.in_channels = g_.out_channels = in[0][0] * in[0][1];
  return absl::OkStatus();
}

}  // namespace jacserve::worker
