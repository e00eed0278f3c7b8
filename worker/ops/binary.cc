// Elementwise arithmetic with broadcasting. With ct = ct_y and sum over the axes where an input repeats:
// Add: ct, ct. Sub: ct, -ct. Mul: ct b, ct a. Div: ct / b, -ct y / b.
#include "common/status.h"
#include "worker/ops/broadcast.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class BinaryOp : public Op {
 public:
  explicit BinaryOp(BinaryFunction function) : function_(function) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1)) return absl::InvalidArgumentError("needs two inputs");
    if (in[0].dtype != in[1].dtype) return absl::InvalidArgumentError("its inputs have different types");
    ASSIGN_OR_RETURN(Shape shape, BroadcastShape(in[0].shape, in[1].shape));
    return std::vector<Facts>{{in[0].dtype, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    ASSIGN_OR_RETURN(const int axis, BroadcastBatchAxis(in, out[0].shape));
    return std::vector<int>{axis};
  }
  bool PullbackReadsInput(int ct_input, int input) const override {
    if (function_ == BinaryFunction::kMul) return input != ct_input;
    return function_ == BinaryFunction::kDiv && input == 1;
  }
  bool PullbackReadsOutput(int ct_input) const override { return function_ == BinaryFunction::kDiv && ct_input == 1; }
  int64_t ScratchElements(const Backend&) const override { return Elements(out_[0]); }

  void Forward(const ForwardArgs& args) const override {
    args.backend.Binary(function_, args.lanes, out_[0], args.x[0], BroadcastStrides(in_[0], out_[0]), args.x[1],
                        BroadcastStrides(in_[1], out_[0]), args.y[0]);
  }

  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    const Shape &shape = out_[0], own = RowMajorStrides(shape), into = BroadcastStrides(in_[input], shape);
    const Shape b_strides = BroadcastStrides(in_[1], shape);
    const int64_t n = Elements(shape);
    const Backend& backend = args.backend;
    backend.Fill(args.lanes, Elements(in_[input]), 0.0, ct_x);
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const Scratch::Frame frame(args.scratch);
      const auto at = [&](const ConstLanes& operand) { return From(operand, lane, backend); };
      ConstLanes ct = at(args.ct_y[0]);
      double sign = 1.0;
      const Lanes product{args.scratch.Take(n * backend.element_bytes()), n};
      if (function_ == BinaryFunction::kSub) sign = input == 0 ? 1.0 : -1.0;
      if (function_ == BinaryFunction::kMul) {
        backend.Binary(BinaryFunction::kMul, 1, shape, ct, own, at(args.x[1 - input]),
                       BroadcastStrides(in_[1 - input], shape), product);
        ct = product;
      } else if (function_ == BinaryFunction::kDiv) {
        backend.Binary(BinaryFunction::kDiv, 1, shape, ct, own, at(args.x[1]), b_strides, product);
        ct = product;
        if (input == 1) {
          sign = -1.0;
          backend.Binary(BinaryFunction::kMul, 1, shape, ct, own, at(args.y[0]), own, product);
        }
      }
      const Lanes target{static_cast<std::byte*>(ct_x.data) + lane * ct_x.stride * backend.element_bytes()};
      backend.CopyStrided(1, shape, ct, own, target, into, /*accumulate=*/true, sign);
    }
  }

 private:
  BinaryFunction function_;
};

}  // namespace

#define JACSERVE_MAKE_BINARY(Name)                                        \
  absl::StatusOr<std::unique_ptr<Op>> Make##Name(const GraphNode&, int) { \
    return std::make_unique<BinaryOp>(BinaryFunction::k##Name);           \
  }
JACSERVE_MAKE_BINARY(Add)
JACSERVE_MAKE_BINARY(Sub)
JACSERVE_MAKE_BINARY(Mul)
JACSERVE_MAKE_BINARY(Div)
#undef JACSERVE_MAKE_BINARY

}  // namespace jacserve::worker
