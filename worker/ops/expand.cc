// Expand: y repeats x along the axes where it has size 1; ct_x = the sum of ct_y along them.
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/broadcast.h"
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
  // A shared value that is expanded to the size of the batch repeats for every sample: the batch axis begins here.
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    const Shape& shape = out[0].shape;
    const int shift = static_cast<int>(shape.size() - in[0].shape.size());
    if (in[0].batch_axis >= 0) return std::vector<int>{in[0].batch_axis + shift};
    for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
      const bool repeats = axis < shift || in[0].shape[axis - shift] == 1;
      if (repeats && shape[axis] == in.batch && in.batch > 1) return std::vector<int>{axis};
    }
    return std::vector<int>{-1};
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  bool PullbackReadsInput(int, int) const override { return false; }

  void Forward(const ForwardArgs& args) const override {
    args.backend.CopyStrided(args.lanes, out_[0], args.x[0], BroadcastStrides(in_[0], out_[0]), args.y[0],
                             RowMajorStrides(out_[0]), false, 1.0);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.Fill(args.lanes, Elements(in_[0]), 0.0, ct_x);
    args.backend.CopyStrided(args.lanes, out_[0], args.ct_y[0], RowMajorStrides(out_[0]), ct_x,
                             BroadcastStrides(in_[0], out_[0]), true, 1.0);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeExpand(const GraphNode&, int) { return std::make_unique<Expand>(); }

}  // namespace jacserve::worker
