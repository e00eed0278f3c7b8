// ReduceSum and ReduceMean: y = scale * sum of x over axes; ct_x = scale * ct_y, repeated along them.
#include <algorithm>
#include <numeric>

#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/broadcast.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class Reduce : public Op {
 public:
  Reduce(bool mean, std::optional<std::vector<int64_t>> axes, bool keep, bool noop)
      : mean_(mean), axes_(std::move(axes)), keep_(keep), noop_(noop) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(in));
    Shape shape;
    for (int64_t axis = 0; axis < static_cast<int64_t>(in[0].shape.size()); ++axis) {
      const bool reduced = std::binary_search(axes.begin(), axes.end(), axis);
      if (!reduced || keep_) shape.push_back(reduced ? 1 : in[0].shape[axis]);
    }
    return std::vector<Facts>{{in[0].dtype, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(in));
    const int64_t batch_axis = in[0].batch_axis;
    if (batch_axis < 0) return std::vector<int>{-1};
    if (std::binary_search(axes.begin(), axes.end(), batch_axis)) return MixesSamples("it sums over the samples");
    const auto before = keep_ ? 0 : std::lower_bound(axes.begin(), axes.end(), batch_axis) - axes.begin();
    return std::vector<int>{static_cast<int>(batch_axis - before)};
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(facts));
    kept_ = in[0];
    double count = 1;
    for (int64_t axis : axes) {
      count *= static_cast<double>(in[0][axis]);
      kept_[axis] = 1;
    }
    scale_ = mean_ ? 1.0 / count : 1.0;
    return absl::OkStatus();
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  bool PullbackReadsInput(int, int) const override { return false; }

  void Forward(const ForwardArgs& args) const override {
    args.backend.Fill(args.lanes, Elements(out_[0]), 0.0, args.y[0]);
    args.backend.CopyStrided(args.lanes, in_[0], args.x[0], RowMajorStrides(in_[0]), args.y[0],
                             BroadcastStrides(kept_, in_[0]), true, scale_);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.CopyStrided(args.lanes, in_[0], args.ct_y[0], BroadcastStrides(kept_, in_[0]), ct_x,
                             RowMajorStrides(in_[0]), false, scale_);
  }

 private:
  absl::StatusOr<std::vector<int64_t>> Axes(const InputFacts& in) const {
    std::vector<int64_t> axes = axes_.value_or(std::vector<int64_t>{});
    if (in.has(1)) {
      ASSIGN_OR_RETURN(axes, ConstantInts(in, 1, "the axes to reduce"));
    }
    if (axes.empty() && !noop_) {
      axes.resize(in[0].shape.size());
      std::iota(axes.begin(), axes.end(), 0);
    }
    return NormalAxes(std::move(axes), in[0].shape.size());
  }

  bool mean_;
  std::optional<std::vector<int64_t>> axes_;
  bool keep_, noop_;
  Shape kept_;
  double scale_ = 1.0;
};

absl::StatusOr<std::unique_ptr<Op>> Make(bool mean, const GraphNode& node) {
  std::optional<std::vector<int64_t>> axes;
  if (node.attributes.contains("axes")) {
    ASSIGN_OR_RETURN(axes, IntsAttribute(node, "axes", {}));
  }
  ASSIGN_OR_RETURN(const int64_t keep, IntAttribute(node, "keepdims", 1));
  ASSIGN_OR_RETURN(const int64_t noop, IntAttribute(node, "noop_with_empty_axes", 0));
  return std::make_unique<Reduce>(mean, std::move(axes), keep != 0, noop != 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeReduceMean(const GraphNode& node, int) { return Make(true, node); }
absl::StatusOr<std::unique_ptr<Op>> MakeReduceSum(const GraphNode& node, int) { return Make(false, node); }

}  // namespace jacserve::worker
