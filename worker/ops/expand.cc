// Expand: y repeats x along the axes where it has size 1; ct_x = the sum of ct_y along them.
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/broadcast.h"
#include "worker/ops/folding.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class Expand : public Op {
 public:
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    ASSIGN_OR_RETURN(const Shape target, ConstantInts(in, 1, "the shape to expand to"));
    RETURN_IF_ERROR(ElementCount(target).status());
    ASSIGN_OR_RETURN(Shape shape, BroadcastShape(in[0].shape, target));
    return std::vector<Facts>{{in[0].dtype, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    if (in[0].batch_axis < 0) return std::vector<int>{NewBatchAxis(in, out[0].shape)};
    return std::vector<int>{in[0].batch_axis + static_cast<int>(out[0].shape.size() - in[0].shape.size())};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    if (in[0].constant == nullptr) return std::nullopt;
    ASSIGN_OR_RETURN(const std::vector<Facts> out, InferShapes(in));
    constexpr int64_t kMostFolded = int64_t{1} << 20;  // more is no arithmetic of shapes
    if (NewBatchAxis(in, out[0].shape) >= 0 || Elements(out[0].shape) > kMostFolded) return std::nullopt;
    const std::vector<double> x = ConstantNumbers(*in[0].constant);
    const Shape from = BroadcastStrides(in[0].shape, out[0].shape), steps = RowMajorStrides(out[0].shape);
    std::vector<double> y(Elements(out[0].shape));
    for (size_t p = 0; p < y.size(); ++p) {
      int64_t at = 0, rest = static_cast<int64_t>(p);
      for (size_t axis = 0; axis < steps.size(); ++axis) {
        at += rest / steps[axis] * from[axis];
        rest %= steps[axis];
      }
      y[p] = x[at];
    }
    return std::vector<HostTensor>{ConstantOf(out[0].dtype, out[0].shape, y)};
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  InputRole RoleOf(int input) const override { return input == 0 ? InputRole::kNumbers : InputRole::kShape; }
  bool PullbackReadsInput(int, int) const override { return false; }
  bool HasPushforward() const override { return true; }

  void Forward(const ForwardArgs& args) const override { Repeat(args.lanes, args.x[0], args.y[0], args.backend); }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    Repeat(args.lanes, args.tan_x[0], tan_y[0], args.backend);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.Fill(args.lanes, Elements(in_[0]), 0.0, ct_x);
    args.backend.CopyStrided(args.lanes, out_[0], args.ct_y[0], RowMajorStrides(out_[0]), ct_x,
                             BroadcastStrides(in_[0], out_[0]), true, 1.0);
  }

 private:
  // A shared value that is expanded to the size of the batch repeats for every sample: the batch axis begins here.
  static int NewBatchAxis(const InputFacts& in, const Shape& shape) {
    const size_t shift = shape.size() - in[0].shape.size();
    const auto repeats = [&](size_t axis) {
      return (axis < shift || in[0].shape[axis - shift] == 1) && shape[axis] == in.batch;
    };
    if (in.likely_axis) {
      const bool fits = *in.likely_axis >= 0 && *in.likely_axis < static_cast<int>(shape.size());
      return fits && repeats(*in.likely_axis) ? *in.likely_axis : -1;
    }
    for (size_t axis = 0; axis < shape.size() && in.batch > 1; ++axis) {
      if (repeats(axis)) return static_cast<int>(axis);
    }
    return -1;
  }
  void Repeat(int64_t lanes, ConstLanes x, Lanes y, const Backend& backend) const {
    backend.CopyStrided(lanes, out_[0], x, BroadcastStrides(in_[0], out_[0]), y, RowMajorStrides(out_[0]), false, 1.0);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeExpand(const GraphNode&, int) { return std::make_unique<Expand>(); }

}  // namespace jacserve::worker
