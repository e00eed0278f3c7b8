// The largest or smallest numbers along one axis. TopK: the first k in order and their indices; ct_x is ct_y at the
// places that they came from. ArgMax and ArgMin: the index alone. Hardmax: 1 at the first largest number, 0 elsewhere,
// over one axis from opset 13 on, over it and all that follow before; its derivative is 0 everywhere.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

template <class Args>
ConstLanes InInt32(ConstLanes saved, const Args& args) {
  saved.stride = saved.stride * args.backend.element_bytes() / static_cast<int64_t>(sizeof(int32_t));
  return saved;
}

// x as [outer, n, inner] around an axis.
TopKShape Around(const Shape& x, int64_t axis) {
  return {.outer = Elements({x.begin(), x.begin() + axis}),
          .n = x[axis],
          .inner = Elements({x.begin() + axis + 1, x.end()})};
}

class AxisOp : public Op {
 public:
  explicit AxisOp(int64_t axis) : axis_(axis) {}
  absl::StatusOr<int64_t> Axis(const InputFacts& in) const {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    return NormalAxis(axis_, in[0].shape.size());
  }

 private:
  int64_t axis_;
};

class TopK : public AxisOp {
 public:
  TopK(int64_t axis, std::optional<int64_t> k, bool largest) : AxisOp(axis), k_(k), largest_(largest) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const int64_t axis, Axis(in));
    ASSIGN_OR_RETURN(const int64_t k, K(in));
    Shape shape = in[0].shape;
    if (k < 0 || k > shape[axis]) {
      return absl::InvalidArgumentError(absl::StrCat("k = ", k, " of ", shape[axis], " numbers"));
    }
    shape[axis] = k;
    return std::vector<Facts>{{in[0].dtype, shape}, {DType::kInt64, shape}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    ASSIGN_OR_RETURN(const int64_t axis, Axis(in));
    if (in[0].batch_axis == axis) return MixesSamples("it picks among the samples");
    return std::vector<int>{in[0].batch_axis, in[0].batch_axis};
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    ASSIGN_OR_RETURN(const int64_t axis, Axis(facts));
    shape_ = Around(in[0], axis);
    shape_.k = out[0][axis];
    shape_.largest = largest_;
    if (Elements(in[0]) > INT32_MAX) return absl::UnimplementedError("TopK of more than 2^31 numbers per sample");
    return absl::OkStatus();
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  bool PullbackReadsInput(int, int) const override { return false; }
  bool PullbackReadsSaved(int) const override { return true; }
  int64_t SavedElements(const Backend&) const override { return Elements(out_[0]); }
  int64_t ScratchElements(const Backend&) const override { return Elements(out_[0]); }  // where nobody keeps it

  void Forward(const ForwardArgs& args) const override {
    const ConstLanes arg = InInt32(args.saved, args);
    args.backend.TopK(shape_, args.lanes, args.x[0], args.y[0], args.y[1], {args.saved.data, arg.stride});
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.ScatterAdd(args.lanes, Elements(out_[0]), Elements(in_[0]), InInt32(args.saved, args), args.ct_y[0],
                            ct_x);
  }
  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    const int64_t n = Elements(out_[0]);
    if (args.tan_x[0].data == nullptr) {
      args.backend.Fill(args.lanes, n, 0.0, tan_y[0]);
    } else {
      args.backend.TakeAt(args.lanes, n, InInt32(args.saved, args), args.tan_x[0], tan_y[0]);
    }
    if (tan_y.size() > 1 && tan_y[1].data != nullptr) args.backend.Fill(args.lanes, n, 0.0, tan_y[1]);
  }

 private:
  absl::StatusOr<int64_t> K(const InputFacts& in) const {
    if (k_) return *k_;
    ASSIGN_OR_RETURN(const std::vector<int64_t> k, ConstantInts(in, 1, "how many to pick"));
    if (k.size() != 1) return absl::InvalidArgumentError("k is not one number");
    return k[0];
  }

  std::optional<int64_t> k_;  // none: input 1
  bool largest_;
  TopKShape shape_;
};

class ArgExtreme : public AxisOp {
 public:
  ArgExtreme(int64_t axis, bool keep, bool largest, bool last)
      : AxisOp(axis), keep_(keep), largest_(largest), last_(last) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const int64_t axis, Axis(in));
    Shape shape = in[0].shape;
    if (shape[axis] == 0) return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " is empty"));
    shape[axis] = 1;
    if (!keep_) shape.erase(shape.begin() + axis);
    return std::vector<Facts>{{DType::kInt64, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    ASSIGN_OR_RETURN(const int64_t axis, Axis(in));
    if (in[0].batch_axis == axis) return MixesSamples("it picks among the samples");
    return std::vector<int>{in[0].batch_axis - (!keep_ && in[0].batch_axis > axis ? 1 : 0)};
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    ASSIGN_OR_RETURN(const int64_t axis, Axis(facts));
    shape_ = Around(in[0], axis);
    shape_.largest = largest_;
    shape_.last_of_equal = last_;
    return absl::OkStatus();
  }
  bool DifferentiableIn(int) const override { return false; }
  bool PullbackReadsInput(int, int) const override { return false; }
  void Forward(const ForwardArgs& args) const override {
    args.backend.TopK(shape_, args.lanes, args.x[0], {}, args.y[0], {});
  }
  void Pullback(int, const PullbackArgs&, Lanes) const override {}
  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    args.backend.Fill(args.lanes, Elements(out_[0]), 0.0, tan_y[0]);
  }

 private:
  bool keep_, largest_, last_;
  TopKShape shape_;
};

class Hardmax : public AxisOp {
 public:
  Hardmax(int64_t axis, bool one_axis) : AxisOp(axis), one_axis_(one_axis) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    RETURN_IF_ERROR(Axis(in).status());
    return std::vector<Facts>{{in[0].dtype, in[0].shape}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    ASSIGN_OR_RETURN(const int64_t axis, Axis(in));
    if (in[0].batch_axis == axis || (!one_axis_ && in[0].batch_axis > axis)) {
      return MixesSamples("it compares the samples");
    }
    return std::vector<int>{in[0].batch_axis};
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    ASSIGN_OR_RETURN(const int64_t axis, Axis(facts));
    shape_ = Around(in[0], axis);
    if (!one_axis_) shape_ = {.outer = shape_.outer, .n = shape_.n * shape_.inner};
    if (Elements(in[0]) > INT32_MAX) return absl::UnimplementedError("Hardmax of more than 2^31 numbers per sample");
    return absl::OkStatus();
  }
  bool DifferentiableIn(int) const override { return false; }
  bool PullbackReadsInput(int, int) const override { return false; }
  int64_t ScratchElements(const Backend&) const override { return 2 * shape_.outer * shape_.inner; }

  void Forward(const ForwardArgs& args) const override {
    const int64_t lines = shape_.n == 0 ? 0 : shape_.outer * shape_.inner, bytes = args.backend.element_bytes();
    const Scratch::Frame frame(args.scratch);
    const Lanes ones{args.scratch.Take(lines * bytes), 0}, arg{args.scratch.Take(lines * bytes), 0};
    args.backend.Fill(1, lines, 1.0, ones);
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const Lanes y{static_cast<std::byte*>(args.y[0].data) + lane * args.y[0].stride * bytes, 0};
      if (lines > 0) args.backend.TopK(shape_, 1, From(args.x[0], lane, args.backend), {}, {}, arg);
      args.backend.ScatterAdd(1, lines, Elements(in_[0]), arg, ones, y);
    }
  }
  void Pullback(int, const PullbackArgs&, Lanes) const override {}
  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    args.backend.Fill(args.lanes, Elements(out_[0]), 0.0, tan_y[0]);
  }

 private:
  bool one_axis_;
  TopKShape shape_;
};

absl::StatusOr<std::unique_ptr<Op>> MakeArg(bool largest, const GraphNode& node) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", 0));
  ASSIGN_OR_RETURN(const int64_t keep, IntAttribute(node, "keepdims", 1));
  ASSIGN_OR_RETURN(const int64_t last, IntAttribute(node, "select_last_index", 0));
  return std::make_unique<ArgExtreme>(axis, keep != 0, largest, last != 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeArgMax(const GraphNode& node, int) { return MakeArg(true, node); }
absl::StatusOr<std::unique_ptr<Op>> MakeArgMin(const GraphNode& node, int) { return MakeArg(false, node); }

absl::StatusOr<std::unique_ptr<Op>> MakeHardmax(const GraphNode& node, int opset) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", opset >= 13 ? -1 : 1));
  return std::make_unique<Hardmax>(axis, opset >= 13);
}

absl::StatusOr<std::unique_ptr<Op>> MakeTopK(const GraphNode& node, int opset) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", -1));
  ASSIGN_OR_RETURN(const int64_t largest, IntAttribute(node, "largest", 1));
  std::optional<int64_t> k;
  if (opset < 10) {
    ASSIGN_OR_RETURN(k, IntAttribute(node, "k", -1));
  }
  return std::make_unique<TopK>(axis, k, largest != 0);
}

}  // namespace jacserve::worker
