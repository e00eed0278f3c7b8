// CumSum: y[i] = the sum of x[j] over j <= i along one axis, without j = i when exclusive, over j >= i when reverse.
// ct_x is the same sum of ct_y in the other direction.
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class CumSum : public Op {
 public:
  CumSum(bool exclusive, bool reverse) : exclusive_(exclusive), reverse_(reverse) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    RETURN_IF_ERROR(Axis(in).status());
    return std::vector<Facts>{{in[0].dtype, in[0].shape}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    ASSIGN_OR_RETURN(const int64_t axis, Axis(in));
    if (in[0].batch_axis == axis) return MixesSamples("it sums over the samples");
    return std::vector<int>{in[0].batch_axis};
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    ASSIGN_OR_RETURN(const int64_t axis, Axis(facts));
    outer_ = Elements({in[0].begin(), in[0].begin() + axis});
    n_ = in[0][axis];
    inner_ = Elements({in[0].begin() + axis + 1, in[0].end()});
    return absl::OkStatus();
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  bool PullbackReadsInput(int, int) const override { return false; }

  void Forward(const ForwardArgs& args) const override {
    args.backend.Scan(false, exclusive_, reverse_, args.lanes, outer_, n_, inner_, args.x[0], args.y[0]);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.Scan(false, exclusive_, !reverse_, args.lanes, outer_, n_, inner_, args.ct_y[0], ct_x);
  }
  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    if (args.tan_x[0].data == nullptr) {
      args.backend.Fill(args.lanes, Elements(in_[0]), 0.0, tan_y[0]);
    } else {
      args.backend.Scan(false, exclusive_, reverse_, args.lanes, outer_, n_, inner_, args.tan_x[0], tan_y[0]);
    }
  }

 private:
  static absl::StatusOr<int64_t> Axis(const InputFacts& in) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> axis, ConstantInts(in, 1, "the axis to sum along"));
    if (axis.size() != 1) return absl::InvalidArgumentError("the axis is not one number");
    return NormalAxis(axis[0], in[0].shape.size());
  }
  bool exclusive_, reverse_;
  int64_t outer_ = 1, n_ = 1, inner_ = 1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeCumSum(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t exclusive, IntAttribute(node, "exclusive", 0));
  ASSIGN_OR_RETURN(const int64_t reverse, IntAttribute(node, "reverse", 0));
  return std::make_unique<CumSum>(exclusive != 0, reverse != 0);
}

}  // namespace jacserve::worker
