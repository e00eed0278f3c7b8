// Softmax: y = exp x / sum exp x; ct_x = y (ct_y - sum y ct_y). LogSoftmax: y = x - log sum exp x;
// ct_x = ct_y - exp(y) sum ct_y, tan_y = tan_x - sum exp(y) tan_x. The derivative of Softmax is symmetric. Over one
// axis from opset 13 on, over it and all that follow before.
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
  int64_t ScratchElements(const Backend&) const override { return outer_ * (n_ + 1) * inner_; }  // of Pushforward

  void Forward(const ForwardArgs& args) const override {
    args.backend.Softmax(log_, args.lanes, outer_, n_, inner_, args.x[0], args.y[0]);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.SoftmaxPullback(log_, args.lanes, outer_, n_, inner_, args.y[0], args.ct_y[0], ct_x);
  }

  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    const Backend& backend = args.backend;
    const ConstLanes tan = args.tan_x[0];
    if (tan.data == nullptr) {
      backend.Fill(args.lanes, Elements(in_[0]), 0.0, tan_y[0]);
      return;
    }
    if (!log_) {
      backend.SoftmaxPullback(false, args.lanes, outer_, n_, inner_, args.y[0], tan, tan_y[0]);
      return;
    }
    const Shape shape = {outer_, n_, inner_}, own = RowMajorStrides(shape), repeated = {inner_, 0, 1};
    const int64_t n = Elements(shape), bytes = backend.element_bytes();
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const Scratch::Frame frame(args.scratch);
      const Lanes product{args.scratch.Take(n * bytes), 0}, sum{args.scratch.Take(outer_ * inner_ * bytes), 0};
      const Lanes to{static_cast<std::byte*>(tan_y[0].data) + lane * tan_y[0].stride * bytes, 0};
      backend.Unary(UnaryFunction::kExp, {}, 1, n, From(args.y[0], lane, backend), product);
      backend.Binary(BinaryFunction::kMul, 1, shape, product, own, From(tan, lane, backend), own, product);
      backend.Fill(1, outer_ * inner_, 0.0, sum);
      backend.CopyStrided(1, shape, product, own, sum, repeated, true, 1.0);
      backend.Binary(BinaryFunction::kSub, 1, shape, From(tan, lane, backend), own, sum, repeated, to);
    }
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
