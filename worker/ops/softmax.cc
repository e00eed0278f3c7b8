// Softmax: y = exp x / sum exp x; ct_x = y (ct_y - sum y ct_y). LogSoftmax: y = x - log sum exp x;
// ct_x = ct_y - exp(y) sum ct_y. Over one axis from opset 13 on, over it and all that follow before.
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class Softmax : public Op {
 public:
  Softmax(bool log, int64_t axis, bool one_axis) : log_(log), axis_(axis), one_axis_(one_axis) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    RETURN_IF_ERROR(NormalAxis(axis_, in[0].shape.size()).status());
    return std::vector<Facts>{{in[0].dtype, in[0].shape}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, in[0].shape.size()));
    if (in[0].batch_axis == axis || (!one_axis_ && in[0].batch_axis > axis)) {
      return MixesSamples("it normalises over the samples");
    }
    return std::vector<int>{in[0].batch_axis};
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    const Shape& shape = in[0];
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, shape.size()));
    outer_ = Elements({shape.begin(), shape.begin() + axis});
    n_ = one_axis_ ? shape[axis] : Elements({shape.begin() + axis, shape.end()});
    inner_ = one_axis_ ? Elements({shape.begin() + axis + 1, shape.end()}) : 1;
    return absl::OkStatus();
  }
  bool PullbackReadsInput(int, int) const override { return false; }
  bool PullbackReadsOutput(int) const override { return true; }

  void Forward(const ForwardArgs& args) const override {
    args.backend.Softmax(log_, args.lanes, outer_, n_, inner_, args.x[0], args.y[0]);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.SoftmaxPullback(log_, args.lanes, outer_, n_, inner_, args.y[0], args.ct_y[0], ct_x);
  }

 private:
  bool log_;
  int64_t axis_;
  bool one_axis_;
  int64_t outer_ = 1, n_ = 1, inner_ = 1;
};

absl::StatusOr<std::unique_ptr<Op>> Make(bool log, const GraphNode& node, int opset) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", opset >= 13 ? -1 : 1));
  return std::make_unique<Softmax>(log, axis, opset >= 13);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeSoftmax(const GraphNode& node, int opset) { return Make(false, node, opset); }
absl::StatusOr<std::unique_ptr<Op>> MakeLogSoftmax(const GraphNode& node, int opset) { return Make(true, node, opset); }

}  // namespace jacserve::worker
