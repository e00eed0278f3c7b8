// AveragePool: y[c, l] = sum of x over the window at l / its count; ct_x = ct_y / count spread over the window.
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"
#include "worker/ops/window.h"

namespace jacserve::worker {
namespace {

class AveragePool : public Op {
 public:
  AveragePool(WindowAttributes window, bool count_pads) : window_(std::move(window)), count_pads_(count_pads) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    ASSIGN_OR_RETURN(const WindowGeometry g, window_.Geometry(in[0].shape, window_.kernel_shape()));
    return std::vector<Facts>{{in[0].dtype, WindowOutputShape(in[0].shape, in[0].shape[1], g.out)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    if (in[0].batch_axis > 1) return MixesSamples("it slides over the samples");
    return std::vector<int>{in[0].batch_axis};
  }
  // Images of one sample are channels: a window never leaves its own.
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    ASSIGN_OR_RETURN(g_, window_.Geometry(in[0], window_.kernel_shape()));
    g_.in_channels = g_.out_channels = in[0][0] * in[0][1];
    return absl::OkStatus();
  }
  bool PullbackReadsInput(int, int) const override { return false; }

  void Forward(const ForwardArgs& args) const override {
    args.backend.AveragePool(g_, count_pads_, args.lanes, args.x[0], args.y[0]);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.AveragePoolPullback(g_, count_pads_, args.lanes, args.ct_y[0], ct_x);
  }
  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    args.backend.AveragePool(g_, count_pads_, args.lanes, args.tan_x[0], tan_y[0]);
  }

 private:
  WindowAttributes window_;
  bool count_pads_;
  WindowGeometry g_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeAveragePool(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(WindowAttributes window, WindowAttributes::Read(node));
  ASSIGN_OR_RETURN(const int64_t count_pads, IntAttribute(node, "count_include_pad", 0));
  return std::make_unique<AveragePool>(std::move(window), count_pads != 0);
}

}  // namespace jacserve::worker
