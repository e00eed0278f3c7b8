// Sum, Mean, Max and Min of any number of inputs that broadcast. Sum and Mean are chains of Add. Of the inputs that
// equal the extreme, the first takes the cotangent.
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/binary.h"
#include "worker/ops/broadcast.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

// y = max or min over x[0], x[1], ...; ct_x[i] = ct_y where x[i] = y and no x[j] before it is.
class Extreme : public Op {
 public:
  explicit Extreme(BinaryFunction function) : function_(function) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    Facts y;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in.has(i)) return absl::InvalidArgumentError(absl::StrCat("input ", i, " is missing"));
      if (i == 0) y = {in[0].dtype, in[0].shape};
      if (in[i].dtype != y.dtype) return absl::InvalidArgumentError("its inputs have different types");
      ASSIGN_OR_RETURN(y.shape, BroadcastShape(y.shape, in[i].shape));
    }
    return std::vector<Facts>{std::move(y)};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    ASSIGN_OR_RETURN(const int axis, BroadcastBatchAxis(in, out[0].shape));
    return std::vector<int>{axis};
  }
  bool PullbackReadsInput(int ct_input, int input) const override { return input <= ct_input; }
  bool PullbackReadsOutput(int) const override { return true; }
  int64_t ScratchElements(const Backend&) const override { return 2 * Elements(out_[0]); }

  void Forward(const ForwardArgs& args) const override {
    const Shape& shape = out_[0];
    ConstLanes so_far = args.x[0];
    Shape strides = BroadcastStrides(in_[0], shape);
    for (size_t i = 1; i < args.x.size(); ++i) {
      args.backend.Binary(function_, args.lanes, shape, so_far, strides, args.x[i], BroadcastStrides(in_[i], shape),
                          args.y[0]);
      so_far = args.y[0];
      strides = RowMajorStrides(shape);
    }
  }

  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    const Shape &shape = out_[0], own = RowMajorStrides(shape);
    const Backend& backend = args.backend;
    backend.Fill(args.lanes, Elements(in_[input]), 0.0, ct_x);
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const Scratch::Frame frame(args.scratch);
      const Lanes equal = Take(args), left = Take(args);
      backend.CopyStrided(1, shape, From(args.ct_y[0], lane, backend), own, left, own, false, 1.0);
      for (int i = 0; i <= input; ++i) {
        Compare(args, i, lane, equal);
        const BinaryFunction keep = i == input ? BinaryFunction::kIfTrue : BinaryFunction::kIfFalse;
        backend.Binary(keep, 1, shape, equal, own, left, own, left);
      }
      const Lanes to{static_cast<std::byte*>(ct_x.data) + lane * ct_x.stride * backend.element_bytes(), 0};
      backend.CopyStrided(1, shape, left, own, to, BroadcastStrides(in_[input], shape), true, 1.0);
    }
  }

  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    const Shape &shape = out_[0], own = RowMajorStrides(shape);
    const Backend& backend = args.backend;
    backend.Fill(args.lanes, Elements(shape), 0.0, tan_y[0]);
    int last = static_cast<int>(args.x.size()) - 1;
    while (last > 0 && args.tan_x[last].data == nullptr) --last;
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const Scratch::Frame frame(args.scratch);
      const Lanes equal = Take(args), free = Take(args);  // free: 1 where no input was equal yet
      backend.Fill(1, Elements(shape), 1.0, free);
      const Lanes to{static_cast<std::byte*>(tan_y[0].data) + lane * tan_y[0].stride * backend.element_bytes(), 0};
      for (int i = 0; i <= last; ++i) {
        Compare(args, i, lane, equal);
        backend.Binary(BinaryFunction::kAnd, 1, shape, equal, own, free, own, equal);
        backend.Binary(BinaryFunction::kIfFalse, 1, shape, equal, own, free, own, free);
        if (args.tan_x[i].data == nullptr) continue;
        backend.BinaryTerm(BinaryFunction::kIfTrue, 1, 1, shape, {equal, own, {}, own},
                           From(args.tan_x[i], lane, backend), BroadcastStrides(in_[i], shape), to, own, true);
      }
    }
  }

 private:
  template <class Args>
  Lanes Take(const Args& args) const {
    return {args.scratch.Take(Elements(out_[0]) * args.backend.element_bytes()), 0};
  }
  template <class Args>
  void Compare(const Args& args, int i, int64_t lane, Lanes equal) const {
    args.backend.Binary(BinaryFunction::kEqual, 1, out_[0], From(args.x[i], lane, args.backend),
                        BroadcastStrides(in_[i], out_[0]), From(args.y[0], lane, args.backend),
                        RowMajorStrides(out_[0]), equal);
  }

  BinaryFunction function_;
};

absl::StatusOr<std::unique_ptr<Op>> MakeExtreme(BinaryFunction function, const GraphNode& node, int opset) {
  if (node.inputs.size() == 1) return MakeIdentity(node, opset);
  if (node.inputs.size() == 2) return MakeBinaryOp(function);
  return std::make_unique<Extreme>(function);
}

absl::StatusOr<std::string> SumOf(Expansion& e) {
  if (e.node().inputs.empty()) return absl::InvalidArgumentError("needs an input");
  std::string sum = e.x(0);
  for (size_t i = 1; i < e.node().inputs.size(); ++i) sum = e.Add("Add", {sum, e.x(i)});
  return sum;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeMax(const GraphNode& node, int opset) {
  return MakeExtreme(BinaryFunction::kMax, node, opset);
}
absl::StatusOr<std::unique_ptr<Op>> MakeMin(const GraphNode& node, int opset) {
  return MakeExtreme(BinaryFunction::kMin, node, opset);
}

absl::Status ExpandSum(Expansion& e, int) {
  ASSIGN_OR_RETURN(const std::string sum, SumOf(e));
  e.Output(0, sum);
  return absl::OkStatus();
}
absl::Status ExpandMean(Expansion& e, int) {
  ASSIGN_OR_RETURN(const std::string sum, SumOf(e));
  e.Output(0, e.Add("Div", {sum, e.Number(static_cast<double>(e.node().inputs.size()))}));
  return absl::OkStatus();
}

}  // namespace jacserve::worker
