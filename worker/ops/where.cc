// Where: y = condition ? a : b; ct_a = ct_y where the condition holds, else 0; ct_b = ct_y where it does not. All
// broadcast. What is not selected is not read, so infinities and NaN there do no harm.
#include "common/status.h"
#include "worker/ops/broadcast.h"
#include "worker/ops/folding.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class Where : public Op {
 public:
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1) || !in.has(2)) return absl::InvalidArgumentError("needs three inputs");
    if (in[0].dtype != DType::kBool) return absl::InvalidArgumentError("its condition does not hold truth values");
    if (in[1].dtype != in[2].dtype) return absl::InvalidArgumentError("its inputs have different types");
    ASSIGN_OR_RETURN(Shape shape, BroadcastShape(in[1].shape, in[2].shape));
    ASSIGN_OR_RETURN(shape, BroadcastShape(in[0].shape, shape));
    return std::vector<Facts>{{in[1].dtype, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    ASSIGN_OR_RETURN(const int axis, BroadcastBatchAxis(in, out[0].shape));
    return std::vector<int>{axis};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const std::vector<Facts> out, InferShapes(in));
    return FoldSelect(in[0], in[1], in[2], out[0]);
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    own_ = RowMajorStrides(out[0]);
    for (int i : {0, 1, 2}) strides_[i] = BroadcastStrides(in[i], out[0]);
    return absl::OkStatus();
  }
  bool DifferentiableIn(int input) const override { return input > 0; }
  bool PullbackReadsInput(int, int input) const override { return input == 0; }

  void Forward(const ForwardArgs& args) const override {
    args.backend.Select(args.lanes, out_[0], args.x[0], strides_[0], args.x[1], strides_[1], args.x[2], strides_[2],
                        args.y[0]);
  }
  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    const bool repeats = Elements(in_[input]) != Elements(out_[0]);
    if (repeats) args.backend.Fill(args.lanes, Elements(in_[input]), 0.0, ct_x);
    Term(input, args, args.ct_y[0], own_, ct_x, strides_[input], repeats);
  }
  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    args.backend.Fill(args.lanes, Elements(out_[0]), 0.0, tan_y[0]);
    for (int i : {1, 2}) {
      if (args.tan_x[i].data != nullptr) Term(i, args, args.tan_x[i], strides_[i], tan_y[0], own_, true);
    }
  }

 private:
  template <class Args>
  void Term(int input, const Args& args, ConstLanes v, const Shape& v_strides, Lanes out, const Shape& out_strides,
            bool accumulate) const {
    const BinaryFunction select = input == 1 ? BinaryFunction::kIfTrue : BinaryFunction::kIfFalse;
    args.backend.BinaryTerm(select, 1, args.lanes, out_[0], {args.x[0], strides_[0], {}, own_}, v, v_strides, out,
                            out_strides, accumulate);
  }

  Shape own_, strides_[3];
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeWhere(const GraphNode&, int) { return std::make_unique<Where>(); }

}  // namespace jacserve::worker
