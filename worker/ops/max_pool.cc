// MaxPool: y[c, l] = max over the window at l; the first maximum alone receives the cotangent.
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"
#include "worker/ops/window.h"

namespace jacserve::worker {
namespace {

class MaxPool : public Op {
 public:
  explicit MaxPool(WindowAttributes window) : window_(std::move(window)) {}

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
    if (g_.InSize() > INT32_MAX) return absl::UnimplementedError("a max pool over more than 2^31 numbers per sample");
    return absl::OkStatus();
  }
  bool PullbackReadsInput(int, int) const override { return false; }
  bool PullbackReadsSaved(int) const override { return true; }
  int64_t SavedElements(const Backend&) const override { return g_.OutSize(); }  // int32 in elements of 4 or 8 bytes

  void Forward(const ForwardArgs& args) const override {
    args.backend.MaxPool(g_, args.lanes, args.x[0], args.y[0], {args.saved.data, InInt32(args.saved.stride, args)});
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    ConstLanes arg = args.saved;
    arg.stride = InInt32(arg.stride, args);
    args.backend.ScatterAdd(args.lanes, g_.OutSize(), g_.InSize(), arg, args.ct_y[0], ct_x);
  }

  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    ConstLanes arg = args.saved;
    arg.stride = InInt32(arg.stride, args);
    args.backend.TakeAt(args.lanes, g_.OutSize(), arg, args.tan_x[0], tan_y[0]);
  }

 private:
  template <class Args>
  static int64_t InInt32(int64_t stride, const Args& args) {
    return stride * args.backend.element_bytes() / static_cast<int64_t>(sizeof(int32_t));
  }

  WindowAttributes window_;
  WindowGeometry g_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeMaxPool(const GraphNode& node, int) {
  if (node.outputs.size() > 1 && !node.outputs[1].empty()) {
    return absl::UnimplementedError("a MaxPool whose indices are used");
  }
  ASSIGN_OR_RETURN(WindowAttributes window, WindowAttributes::Read(node));
  return std::make_unique<MaxPool>(std::move(window));
}

}  // namespace jacserve::worker
