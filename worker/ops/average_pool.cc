// AveragePool: y[c, l] = sum of x over the window at l / its count; ct_x = ct_y / count spread over the window.
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/channel_pool.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class AveragePool : public ChannelPool {
 public:
  AveragePool(WindowAttributes window, bool count_pads) : ChannelPool(std::move(window)), count_pads_(count_pads) {}

  void Forward(const ForwardArgs& args) const override {
    args.backend.AveragePool(g_, count_pads_, args.lanes, args.x[0], args.y[0]);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.AveragePoolPullback(g_, count_pads_, args.lanes, args.ct_y[0], ct_x);
  }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    args.backend.AveragePool(g_, count_pads_, args.lanes, args.tan_x[0], tan_y[0]);
  }

 private:
  bool count_pads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeAveragePool(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(WindowAttributes window, WindowAttributes::Read(node));
  ASSIGN_OR_RETURN(const int64_t count_pads, IntAttribute(node, "count_include_pad", 0));
  return std::make_unique<AveragePool>(std::move(window), count_pads != 0);
}

}  // namespace jacserve::worker
