// Elementwise functions of one input: y = f(x), ct_x = ct_y * f'(x). The formulas are in backend/formulas.h.
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/folding.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class UnaryOp : public Op {
 public:
  UnaryOp(UnaryFunction function, UnaryParams params, std::optional<DType> result)
      : function_(function), reads_(DerivativeReads(function)), params_(params), result_(result) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    return std::vector<Facts>{{result_.value_or(in[0].dtype), in[0].shape}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    return std::vector<int>{in[0].batch_axis};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    return FoldUnary(function_, params_, in[0], result_.value_or(in[0].dtype));
  }
  bool DifferentiableIn(int) const override { return reads_ != Reads::kFlat; }
  bool PullbackReadsInput(int, int) const override { return reads_ == Reads::kX; }
  bool PullbackReadsOutput(int) const override { return reads_ == Reads::kY; }
  bool PullbackReadsSaved(int) const override { return reads_ == Reads::kSaved; }
  int64_t SavedElements(const Backend&) const override { return reads_ == Reads::kSaved ? Elements(in_[0]) : 0; }
  // Ones, and what is saved where nobody keeps it.
  int64_t ScratchElements(const Backend& backend) const override { return 2 * SavedElements(backend); }

  void Forward(const ForwardArgs& args) const override {
    const int64_t n = Elements(in_[0]);
    args.backend.Unary(function_, params_, args.lanes, n, args.x[0], args.y[0]);
    if (reads_ != Reads::kSaved) return;
    const Scratch::Frame frame(args.scratch);
    const Lanes ones{args.scratch.Take(n * args.backend.element_bytes()), 0};
    args.backend.Fill(1, n, 1.0, ones);
    args.backend.UnaryPullback(function_, params_, args.lanes, n, args.x[0], args.y[0], ones, args.saved);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override { Multiply(args, args.ct_y[0], ct_x); }
  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    if (reads_ == Reads::kFlat || args.tan_x[0].data == nullptr) {
      args.backend.Fill(args.lanes, Elements(in_[0]), 0.0, tan_y[0]);
    } else {
      Multiply(args, args.tan_x[0], tan_y[0]);
    }
  }

 private:
  // out = v * f'(x)
  template <class Args>
  void Multiply(const Args& args, ConstLanes v, Lanes out) const {
    const int64_t n = Elements(in_[0]);
    if (reads_ == Reads::kSaved) {
      args.backend.BinaryTerm(BinaryFunction::kMul, 1, args.lanes, {n}, {args.saved, {1}, {}, {1}}, v, {1}, out, {1},
                              false);
    } else {
      args.backend.UnaryPullback(function_, params_, args.lanes, n, args.x[0], args.y[0], v, out);
    }
  }

  UnaryFunction function_;
  Reads reads_;
  UnaryParams params_;
  std::optional<DType> result_;  // none: the input's
};

struct Parameter {
  const char* name = nullptr;
  double fallback = 0;
};

absl::StatusOr<std::unique_ptr<Op>> Make(UnaryFunction function, const GraphNode& node, Parameter alpha = {},
                                         Parameter beta = {}) {
  UnaryParams params;
  if (alpha.name != nullptr) {
    ASSIGN_OR_RETURN(params.alpha, FloatAttribute(node, alpha.name, alpha.fallback));
  }
  if (beta.name != nullptr) {
    ASSIGN_OR_RETURN(params.beta, FloatAttribute(node, beta.name, beta.fallback));
  }
  return std::make_unique<UnaryOp>(function, params, std::nullopt);
}

}  // namespace

#define JACSERVE_MAKE_UNARY(Name, ...)                                         \
  absl::StatusOr<std::unique_ptr<Op>> Make##Name(const GraphNode& node, int) { \
    return Make(UnaryFunction::k##Name, node __VA_OPT__(, ) __VA_ARGS__);      \
  }
JACSERVE_MAKE_UNARY(Abs)
JACSERVE_MAKE_UNARY(Acos)
JACSERVE_MAKE_UNARY(Acosh)
JACSERVE_MAKE_UNARY(Asin)
JACSERVE_MAKE_UNARY(Asinh)
JACSERVE_MAKE_UNARY(Atan)
JACSERVE_MAKE_UNARY(Atanh)
JACSERVE_MAKE_UNARY(Ceil)
JACSERVE_MAKE_UNARY(Cos)
JACSERVE_MAKE_UNARY(Cosh)
JACSERVE_MAKE_UNARY(Elu, {"alpha", 1.0})
JACSERVE_MAKE_UNARY(Erf)
JACSERVE_MAKE_UNARY(Exp)
JACSERVE_MAKE_UNARY(Floor)
JACSERVE_MAKE_UNARY(HardSigmoid, {"alpha", 0.2}, {"beta", 0.5})
JACSERVE_MAKE_UNARY(HardSwish)
JACSERVE_MAKE_UNARY(LeakyRelu, {"alpha", 0.01})
JACSERVE_MAKE_UNARY(Log)
JACSERVE_MAKE_UNARY(Neg)
JACSERVE_MAKE_UNARY(Reciprocal)
JACSERVE_MAKE_UNARY(Relu)
JACSERVE_MAKE_UNARY(Round)
JACSERVE_MAKE_UNARY(Selu, {"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875})
JACSERVE_MAKE_UNARY(Shrink, {"lambd", 0.5}, {"bias", 0.0})
JACSERVE_MAKE_UNARY(Sigmoid)
JACSERVE_MAKE_UNARY(Sign)
JACSERVE_MAKE_UNARY(Sin)
JACSERVE_MAKE_UNARY(Sinh)
JACSERVE_MAKE_UNARY(Softplus)
JACSERVE_MAKE_UNARY(Softsign)
JACSERVE_MAKE_UNARY(Sqrt)
JACSERVE_MAKE_UNARY(Tan)
JACSERVE_MAKE_UNARY(Tanh)
JACSERVE_MAKE_UNARY(ThresholdedRelu, {"alpha", 1.0})
#undef JACSERVE_MAKE_UNARY

absl::StatusOr<std::unique_ptr<Op>> MakeGelu(const GraphNode& node, int) {
  const absl::StatusOr<std::string> approximate = StringAttribute(node, "approximate", "none");
  if (!approximate.ok()) return approximate.status();
  if (*approximate == "none") return Make(UnaryFunction::kGelu, node);
  if (*approximate == "tanh") return Make(UnaryFunction::kGeluTanh, node);
  return absl::InvalidArgumentError("approximate is neither none nor tanh");
}

absl::StatusOr<std::unique_ptr<Op>> MakeNot(const GraphNode&, int) {
  return std::make_unique<UnaryOp>(UnaryFunction::kNot, UnaryParams{}, DType::kBool);
}

absl::StatusOr<std::unique_ptr<Op>> MakeIsNaN(const GraphNode&, int) {
  return std::make_unique<UnaryOp>(UnaryFunction::kIsNaN, UnaryParams{}, DType::kBool);
}

absl::StatusOr<std::unique_ptr<Op>> MakeIsInf(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t negative, IntAttribute(node, "detect_negative", 1));
  ASSIGN_OR_RETURN(const int64_t positive, IntAttribute(node, "detect_positive", 1));
  const UnaryParams params{.alpha = negative != 0 ? 1.0 : 0.0, .beta = positive != 0 ? 1.0 : 0.0};
  return std::make_unique<UnaryOp>(UnaryFunction::kIsInf, params, DType::kBool);
}

}  // namespace jacserve::worker
