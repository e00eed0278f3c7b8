// MaxPool: y[c, l] = max over the window at l; the first maximum alone receives the cotangent.
#include "common/status.h"
#include "worker/ops/channel_pool.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class MaxPool : public ChannelPool {
 public:
  using ChannelPool::ChannelPool;

  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(ChannelPool::Bind(facts, in, out));
    if (g_.InSize() > INT32_MAX) return absl::UnimplementedError("a max pool over more than 2^31 numbers per sample");
    return absl::OkStatus();
  }
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
