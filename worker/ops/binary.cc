// Elementwise functions of two inputs with broadcasting: y = f(a, b); ct_a = the sum over the axes where a repeats of
// ct_y * df/da, and so for b. The formulas are in backend/formulas.h.
#include "worker/ops/binary.h"

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/broadcast.h"
#include "worker/ops/folding.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

bool IsLogical(BinaryFunction f) {
  return f == BinaryFunction::kAnd || f == BinaryFunction::kOr || f == BinaryFunction::kXor;
}
bool IsComparison(BinaryFunction f) {
  return f == BinaryFunction::kLess || f == BinaryFunction::kLessOrEqual || f == BinaryFunction::kGreater ||
         f == BinaryFunction::kGreaterOrEqual || f == BinaryFunction::kEqual;
}
BinaryFunction ForType(BinaryFunction f, DType dtype) {
  if (IsFloat(dtype)) return f;
  switch (f) {
    case BinaryFunction::kDiv:
      return BinaryFunction::kIntDiv;
    case BinaryFunction::kPow:
      return BinaryFunction::kIntPow;
    case BinaryFunction::kFloorMod:
      return BinaryFunction::kIntMod;
    default:
      return f;
  }
}

class BinaryOp : public Op {
 public:
  explicit BinaryOp(BinaryFunction function) : function_(function) {}

  // Input 1 under the shape that it broadcasts with.
  virtual Shape Aligned(const Shape&, const Shape& b) const { return b; }

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1)) return absl::InvalidArgumentError("needs two inputs");
    if (in[0].dtype != in[1].dtype && function_ != BinaryFunction::kPow) {
      return absl::InvalidArgumentError("its inputs have different types");
    }
    if (IsLogical(function_) && in[0].dtype != DType::kBool) {
      return absl::InvalidArgumentError("its inputs are not truth values");
    }
    if (function_ == BinaryFunction::kIntMod && IsFloat(in[0].dtype)) {
      return absl::InvalidArgumentError("floats have a remainder with fmod = 1 only, before opset 28");
    }
    ASSIGN_OR_RETURN(Shape shape, BroadcastShape(in[0].shape, Aligned(in[0].shape, in[1].shape)));
    const bool truth = IsComparison(function_) || IsLogical(function_);
    return std::vector<Facts>{{truth ? DType::kBool : in[0].dtype, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    InputFacts aligned = in;
    aligned.facts[1].shape = Aligned(in[0].shape, in[1].shape);
    ASSIGN_OR_RETURN(const int axis, BroadcastBatchAxis(aligned, out[0].shape));
    return std::vector<int>{axis};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const std::vector<Facts> out, InferShapes(in));
    Facts b = in[1];
    b.shape = Aligned(in[0].shape, b.shape);
    return FoldBinary(ForType(function_, in[0].dtype), in[0], b, out[0]);
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    function_ = ForType(function_, facts[0].dtype);
    in_[1] = Aligned(in[0], in[1]);
    own_ = RowMajorStrides(out[0]);
    for (int i : {0, 1}) {
      strides_[i] = BroadcastStrides(in_[i], out[0]);
      repeats_[i] = Elements(in_[i]) != Elements(out[0]);
    }
    return absl::OkStatus();
  }
  bool DifferentiableIn(int input) const override { return DerivativeReads(function_, input) != kFlatIn; }
  bool PullbackReadsInput(int ct_input, int input) const override {
    return DerivativeReads(function_, ct_input) & (input == 0 ? kReadsA : kReadsB);
  }
  bool PullbackReadsOutput(int ct_input) const override { return DerivativeReads(function_, ct_input) & kReadsY; }
  double Flops() const override { return static_cast<double>(Elements(out_[0])); }

  void Forward(const ForwardArgs& args) const override {
    args.backend.Binary(function_, args.lanes, out_[0], args.x[0], strides_[0], args.x[1], strides_[1], args.y[0]);
  }
  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    if (repeats_[input]) args.backend.Fill(args.lanes, Elements(in_[input]), 0.0, ct_x);
    args.backend.BinaryTerm(function_, input, args.lanes, out_[0], Operands(args, 0), args.ct_y[0], own_, ct_x,
                            strides_[input], repeats_[input]);
  }
  void PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const override;

  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    bool written = false;
    for (int i : {0, 1}) {
      if (args.tan_x[i].data == nullptr || !DifferentiableIn(i)) continue;
      args.backend.BinaryTerm(function_, i, args.lanes, out_[0], Operands(args, 0), args.tan_x[i], strides_[i],
                              tan_y[0], own_, written);
      written = true;
    }
    if (!written) args.backend.Fill(args.lanes, Elements(out_[0]), 0.0, tan_y[0]);
  }

 private:
  template <class Args>
  BinaryOperands Operands(const Args& args, int64_t lane) const {
    return {From(args.x[0], lane, args.backend), strides_[0], From(args.x[1], lane, args.backend), strides_[1],
            From(args.y[0], lane, args.backend)};
  }

  BinaryFunction function_;
  Shape own_, strides_[2];
  bool repeats_[2] = {false, false};
};

// Straight into the rows, without a buffer between.
void BinaryOp::PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const {
  const bool zeroes = repeats_[input] && !rows.accumulate;
  if (zeroes && !rows.contiguous()) {
    Op::PullbackToRows(input, terms, args, rows);
    return;
  }
  const Shape& aligned = in_[input];
  const size_t shift = out_[0].size() - aligned.size();
  Shape into(out_[0].size(), 0);
  for (size_t axis = 0; axis < rows.shape.size(); ++axis) {
    if (aligned[axis] != 1) into[axis + shift] = rows.strides[axis];
  }
  const Lanes all{rows.data, rows.row_stride};
  if (zeroes) args.backend.Fill(terms.rows, Elements(aligned), 0.0, all);
  const bool accumulate = rows.accumulate || repeats_[input];
  if (terms.per_row == 1) {
    args.backend.BinaryTerm(function_, input, terms.rows, out_[0], Operands(args, 0), args.ct_y[0], own_, all, into,
                            accumulate);
    return;
  }
  for (int64_t lane = 0; lane < terms.lanes(); ++lane) {
    const int64_t row = lane / terms.per_row;
    const Lanes one{static_cast<std::byte*>(rows.data) + row * rows.row_stride * args.backend.element_bytes(), 0};
    args.backend.BinaryTerm(function_, input, 1, out_[0], Operands(args, lane), From(args.ct_y[0], lane, args.backend),
                            own_, one, into, accumulate || lane % terms.per_row > 0);
  }
}

// y = x where x >= 0, else slope * x. The slope broadcasts to x; one number per channel is along axis 1.
class PRelu : public BinaryOp {
 public:
  explicit PRelu(bool channels) : BinaryOp(BinaryFunction::kPRelu), channels_(channels) {}

  Shape Aligned(const Shape& x, const Shape& slope) const override {
    const bool per_channel = slope.size() == 1 && x.size() >= 2 && slope[0] == x[1] && slope[0] != 1;
    if (!per_channel || (!channels_ && x.back() == slope[0])) return slope;
    Shape aligned(x.size() - 1, 1);
    aligned[0] = slope[0];
    return aligned;
  }
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(std::vector<Facts> out, BinaryOp::InferShapes(in));
    if (out[0].shape != in[0].shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("slopes of shape ", ShapeText(in[1].shape), " do not broadcast to ", ShapeText(in[0].shape)));
    }
    return out;
  }

 private:
  bool channels_;  // before opset 7, one axis is that of the channels
};

}  // namespace

std::unique_ptr<Op> MakeBinaryOp(BinaryFunction function) { return std::make_unique<BinaryOp>(function); }

#define JACSERVE_MAKE_BINARY(Name)                                        \
  absl::StatusOr<std::unique_ptr<Op>> Make##Name(const GraphNode&, int) { \
    return MakeBinaryOp(BinaryFunction::k##Name);                         \
  }
JACSERVE_MAKE_BINARY(Add)
JACSERVE_MAKE_BINARY(And)
JACSERVE_MAKE_BINARY(Div)
JACSERVE_MAKE_BINARY(Equal)
JACSERVE_MAKE_BINARY(Greater)
JACSERVE_MAKE_BINARY(GreaterOrEqual)
JACSERVE_MAKE_BINARY(Less)
JACSERVE_MAKE_BINARY(LessOrEqual)
JACSERVE_MAKE_BINARY(Mul)
JACSERVE_MAKE_BINARY(Or)
JACSERVE_MAKE_BINARY(Pow)
JACSERVE_MAKE_BINARY(Sub)
JACSERVE_MAKE_BINARY(Xor)
#undef JACSERVE_MAKE_BINARY

absl::StatusOr<std::unique_ptr<Op>> MakeMod(const GraphNode& node, int opset) {
  ASSIGN_OR_RETURN(const int64_t fmod, IntAttribute(node, "fmod", 0));
  if (fmod != 0) return MakeBinaryOp(BinaryFunction::kFMod);
  return MakeBinaryOp(opset < 28 ? BinaryFunction::kIntMod : BinaryFunction::kFloorMod);
}

absl::StatusOr<std::unique_ptr<Op>> MakePRelu(const GraphNode&, int opset) {
  return std::make_unique<PRelu>(opset < 7);
}

}  // namespace jacserve::worker
