// Cast and CastLike. Everything is computed in one precision, so floats of any width are the same numbers, and so are
// integers and truth values seen as floats or integers: y = x, ct_x = ct_y. Floats become integers by truncation
// toward zero and anything becomes a truth value by x != 0: nothing is differentiable in those.
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/folding.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class Cast : public Op {
 public:
  explicit Cast(std::optional<DType> to) : to_(to) {}  // none: the type of input 1

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    if (!to_ && !in.has(1)) return absl::InvalidArgumentError("needs an input of the type to cast to");
    return std::vector<Facts>{{Target(in), in[0].shape}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    return std::vector<int>{in[0].batch_axis};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    if (in[0].constant == nullptr) return std::nullopt;
    const HostTensor& x = *in[0].constant;
    if (!IsFloat(x.dtype) && !IsFloat(Target(in))) {
      return std::vector<HostTensor>{IntTensor(Target(in), x.shape, IntsOf(x))};
    }
    return std::vector<HostTensor>{ConstantOf(Target(in), x.shape, ConstantNumbers(x))};
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    const DType from = facts[0].dtype, to = Target(facts);
    if (to == DType::kBool && from != DType::kBool) function_ = UnaryFunction::kToBool;
    if (IsFloat(from) && !IsFloat(to) && to != DType::kBool) function_ = UnaryFunction::kTrunc;
    return absl::OkStatus();
  }

  InputRole RoleOf(int input) const override { return input == 0 ? InputRole::kNumbers : InputRole::kType; }
  bool IsAlias() const override { return !function_.has_value(); }
  std::optional<StridedView> ViewOf(const StridedView& x) const override {
    return IsAlias() ? std::optional<StridedView>(x) : std::nullopt;
  }
  bool DifferentiableIn(int input) const override { return input == 0 && IsAlias(); }
  bool PullbackReadsInput(int, int) const override { return false; }

  void Forward(const ForwardArgs& args) const override {
    if (function_) args.backend.Unary(*function_, {}, args.lanes, Elements(in_[0]), args.x[0], args.y[0]);
  }
  void Pullback(int, const PullbackArgs&, Lanes) const override {}  // the same memory
  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    if (function_) args.backend.Fill(args.lanes, Elements(in_[0]), 0.0, tan_y[0]);
  }

 private:
  DType Target(const InputFacts& in) const { return to_.value_or(in.has(1) ? in[1].dtype : DType::kFloat32); }
  std::optional<DType> to_;
  std::optional<UnaryFunction> function_;  // none: the same numbers
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeCast(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t to, IntAttribute(node, "to", 0));
  switch (to) {  // onnx.TensorProto.DataType
    case 1:
    case 10:  // float16
    case 16:  // bfloat16
      return std::make_unique<Cast>(DType::kFloat32);
    case 6:
      return std::make_unique<Cast>(DType::kInt32);
    case 7:
      return std::make_unique<Cast>(DType::kInt64);
    case 9:
      return std::make_unique<Cast>(DType::kBool);
    case 11:
      return std::make_unique<Cast>(DType::kFloat64);
    default:
      return absl::UnimplementedError(absl::StrCat("a cast to ONNX type ", to));
  }
}
absl::StatusOr<std::unique_ptr<Op>> MakeCastLike(const GraphNode&, int) { return std::make_unique<Cast>(std::nullopt); }

}  // namespace jacserve::worker
