// Elementwise functions of one input: y = f(x), ct_x = ct_y * f'(x). The formulas are in backend/formulas.h.
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class UnaryOp : public Op {
 public:
  UnaryOp(UnaryFunction function, UnaryParams params) : function_(function), params_(params) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    return std::vector<Facts>{{in[0].dtype, in[0].shape}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    return std::vector<int>{in[0].batch_axis};
  }
  bool PullbackReadsInput(int, int) const override { return DerivativeReads(function_) == Reads::kX; }
  bool PullbackReadsOutput(int) const override { return DerivativeReads(function_) == Reads::kY; }

  void Forward(const ForwardArgs& args) const override {
    args.backend.Unary(function_, params_, args.lanes, Elements(in_[0]), args.x[0], args.y[0]);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.UnaryPullback(function_, params_, args.lanes, Elements(in_[0]), args.x[0], args.y[0], args.ct_y[0],
                               ct_x);
  }

 private:
  UnaryFunction function_;
  UnaryParams params_;
};

absl::StatusOr<std::unique_ptr<Op>> Make(UnaryFunction function, const GraphNode& node, double alpha) {
  ASSIGN_OR_RETURN(alpha, FloatAttribute(node, "alpha", alpha));
  return std::make_unique<UnaryOp>(function, UnaryParams{.alpha = alpha});
}

}  // namespace

#define JACSERVE_MAKE_UNARY(Name, alpha)                                       \
  absl::StatusOr<std::unique_ptr<Op>> Make##Name(const GraphNode& node, int) { \
    return Make(UnaryFunction::k##Name, node, alpha);                          \
  }
JACSERVE_MAKE_UNARY(Abs, 0)
JACSERVE_MAKE_UNARY(Cos, 0)
JACSERVE_MAKE_UNARY(Elu, 1)
JACSERVE_MAKE_UNARY(Erf, 0)
JACSERVE_MAKE_UNARY(Exp, 0)
JACSERVE_MAKE_UNARY(LeakyRelu, 0.01)
JACSERVE_MAKE_UNARY(Log, 0)
JACSERVE_MAKE_UNARY(Neg, 0)
JACSERVE_MAKE_UNARY(Reciprocal, 0)
JACSERVE_MAKE_UNARY(Relu, 0)
JACSERVE_MAKE_UNARY(Sigmoid, 0)
JACSERVE_MAKE_UNARY(Sin, 0)
JACSERVE_MAKE_UNARY(Softplus, 0)
JACSERVE_MAKE_UNARY(Softsign, 0)
JACSERVE_MAKE_UNARY(Sqrt, 0)
JACSERVE_MAKE_UNARY(Tanh, 0)
#undef JACSERVE_MAKE_UNARY

}  // namespace jacserve::worker
