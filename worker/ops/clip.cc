// Clip: y = min(max(x, low), high), so high everywhere when low > high; ct_x = ct_y where low < x < high, as in relu6,
// hardtanh and clamp, which exporters spell so. Bounds are attributes before opset 11, inputs from then on, each of
// which may be left out. Bounds that are not known beforehand are inputs like others, and win ties: with
// m = max(low, x), ct_low = the sum of ct_y where x <= low and m < high, ct_high that of ct_y where m >= high.
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/folding.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class Clip : public Op {
 public:
  explicit Clip(UnaryParams bounds) : bounds_(bounds) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    for (size_t i : {1, 2}) {
      if (in.has(i) && in[i].shape != Shape{} && in[i].shape != Shape{1}) {
        return absl::InvalidArgumentError(absl::StrCat("a bound of shape ", ShapeText(in[i].shape)));
      }
    }
    return std::vector<Facts>{{in[0].dtype, in[0].shape}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    return std::vector<int>{in[0].batch_axis};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    UnaryParams bounds = bounds_;
    if (!Known(in, bounds)) return std::nullopt;
    return FoldUnary(UnaryFunction::kClip, bounds, in[0], in[0].dtype);
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    known_ = Known(facts, bounds_);
    for (int i : {1, 2}) given_[i] = facts.has(i);
    own_ = RowMajorStrides(in[0]);
    none_ = Shape(in[0].size(), 0);
    return absl::OkStatus();
  }
  bool DifferentiableIn(int input) const override { return input == 0 || !known_; }
  bool PullbackReadsInput(int, int input) const override { return input == 0 || !known_; }
  int64_t ScratchElements(const Backend&) const override { return known_ ? 0 : 2 * Elements(in_[0]); }

  void Forward(const ForwardArgs& args) const override {
    if (known_) {
      args.backend.Unary(UnaryFunction::kClip, bounds_, args.lanes, Elements(in_[0]), args.x[0], args.y[0]);
      return;
    }
    const auto at = [&](int i) { return i < static_cast<int>(args.x.size()) ? args.x[i] : ConstLanes{}; };
    AtLeast(args.backend, args.lanes, args.x[0], at(1), args.y[0]);
    if (!given_[2]) return;
    args.backend.Binary(BinaryFunction::kMin, args.lanes, in_[0], args.y[0], own_, at(2), none_, args.y[0]);
  }

  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    const Backend& backend = args.backend;
    if (known_) {
      backend.UnaryPullback(UnaryFunction::kClip, bounds_, args.lanes, Elements(in_[0]), args.x[0], args.y[0],
                            args.ct_y[0], ct_x);
      return;
    }
    backend.Fill(args.lanes, Elements(in_[input]), 0.0, ct_x);
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const Scratch::Frame frame(args.scratch);
      const Inner inner = AtLane(args, lane);
      const ConstLanes ct = From(args.ct_y[0], lane, backend);
      const Lanes to{static_cast<std::byte*>(ct_x.data) + lane * ct_x.stride * backend.element_bytes(), 0};
      const Shape& into = input == 0 ? own_ : none_;
      if (input == 2) {
        backend.BinaryTerm(BinaryFunction::kMin, 0, 1, in_[0], {inner.high, none_, inner.m, own_}, ct, own_, to, into,
                           true);
        continue;
      }
      ConstLanes below = ct;
      if (given_[2]) {
        backend.BinaryTerm(BinaryFunction::kMin, 1, 1, in_[0], {inner.high, none_, inner.m, own_}, ct, own_,
                           inner.spare, own_, false);
        below = inner.spare;
      }
      LowTerm(input, backend, inner, below, own_, to, into);
    }
  }

  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    const Backend& backend = args.backend;
    const bool moves = args.tan_x[0].data != nullptr;
    if (known_ && moves) {
      backend.UnaryPullback(UnaryFunction::kClip, bounds_, args.lanes, Elements(in_[0]), args.x[0], args.y[0],
                            args.tan_x[0], tan_y[0]);
      return;
    }
    backend.Fill(args.lanes, Elements(in_[0]), 0.0, tan_y[0]);
    if (known_) return;
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const Scratch::Frame frame(args.scratch);
      const Inner inner = AtLane(args, lane);
      const Lanes to{static_cast<std::byte*>(tan_y[0].data) + lane * tan_y[0].stride * backend.element_bytes(), 0};
      const auto tangent = [&](int i) {
        return i < static_cast<int>(args.tan_x.size()) ? From(args.tan_x[i], lane, backend) : ConstLanes{};
      };
      for (int i : {0, 1}) {
        if (tangent(i).data == nullptr) continue;
        LowTerm(i, backend, inner, tangent(i), i == 0 ? own_ : none_, to, own_);
      }
      if (!given_[2]) continue;
      const BinaryOperands outer{inner.high, none_, inner.m, own_};
      backend.BinaryTerm(BinaryFunction::kMin, 1, 1, in_[0], outer, to, own_, inner.spare, own_, false);
      backend.CopyStrided(1, in_[0], inner.spare, own_, to, own_, false, 1.0);
      if (tangent(2).data == nullptr) continue;
      backend.BinaryTerm(BinaryFunction::kMin, 0, 1, in_[0], outer, tangent(2), none_, to, own_, true);
    }
  }

 private:
  struct Inner {  // of one lane
    ConstLanes x, low, high;
    Lanes m, spare;  // m = max(x, low)
  };

  // Are all the bounds that are given known? Then they are put into `bounds`.
  static bool Known(const InputFacts& in, UnaryParams& bounds) {
    for (size_t i : {1, 2}) {
      if (!in.has(i)) continue;
      if (in[i].constant == nullptr) return false;
      (i == 1 ? bounds.alpha : bounds.beta) = ConstantNumbers(*in[i].constant)[0];
    }
    return true;
  }

  void AtLeast(const Backend& backend, int64_t lanes, ConstLanes x, ConstLanes low, Lanes m) const {
    if (given_[1]) {
      backend.Binary(BinaryFunction::kMax, lanes, in_[0], x, own_, low, none_, m);
    } else {
      backend.CopyStrided(lanes, in_[0], x, own_, m, own_, false, 1.0);
    }
  }

  template <class Args>
  Inner AtLane(const Args& args, int64_t lane) const {
    const int64_t bytes = Elements(in_[0]) * args.backend.element_bytes();
    const auto at = [&](size_t i) { return i < args.x.size() ? From(args.x[i], lane, args.backend) : ConstLanes{}; };
    Inner inner{at(0), at(1), at(2), {args.scratch.Take(bytes), 0}, {args.scratch.Take(bytes), 0}};
    AtLeast(args.backend, 1, inner.x, inner.low, inner.m);
    return inner;
  }

  // out += v * dm/dx or dm/dlow
  void LowTerm(int input, const Backend& backend, const Inner& inner, ConstLanes v, const Shape& v_strides, Lanes out,
               const Shape& out_strides) const {
    if (given_[1]) {
      backend.BinaryTerm(BinaryFunction::kMax, 1 - input, 1, in_[0], {inner.low, none_, inner.x, own_}, v, v_strides,
                         out, out_strides, true);
    } else {
      backend.CopyStrided(1, in_[0], v, v_strides, out, out_strides, true, 1.0);
    }
  }

  UnaryParams bounds_;
  bool known_ = true;
  bool given_[3] = {true, false, false};
  Shape own_, none_;  // strides of x and of a bound
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeClip(const GraphNode& node, int opset) {
  UnaryParams bounds{-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  if (opset < 11 && node.attributes.contains("min")) {
    ASSIGN_OR_RETURN(bounds.alpha, FloatAttribute(node, "min", 0));
  }
  if (opset < 11 && node.attributes.contains("max")) {
    ASSIGN_OR_RETURN(bounds.beta, FloatAttribute(node, "max", 0));
  }
  return std::make_unique<Clip>(bounds);
}

}  // namespace jacserve::worker
