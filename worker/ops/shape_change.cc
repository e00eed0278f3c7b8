// Operators that change a value's shape and none of its numbers: y = x, ct_x = ct_y.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

// Elements of x in front of its samples' first axis or inside it.
int64_t BeforeSamples(const Facts& x) {
  return x.before_samples * Elements({x.shape.begin(), x.shape.begin() + x.batch_axis});
}

// before_samples along an axis that `product` elements stand in front of, when `before` stand before the samples; 0:
// they cannot lie there.
int64_t BeforeWithin(int64_t before, int64_t product) {
  if (before == product) return 1;
  return product > 0 && before % product == 0 ? before / product : 0;
}

// The axis of `out` along which the samples of `in` lie: as many elements stand before them. With one sample several
// axes may qualify: the likely one, or one that they stand first in counts most, then the same axis, then one of
// size 1. FailedPrecondition: the samples are cut up.
absl::StatusOr<int> ReshapedBatchAxis(const Facts& in, const Shape& out, const InputFacts& all) {
  const int64_t batch = all.batch;
  const int64_t before = BeforeSamples(in);
  int best = -1, best_score = -1;
  int64_t product = 1;
  for (int axis = 0; axis < static_cast<int>(out.size()); ++axis) {
    const int64_t within = BeforeWithin(before, product);
    const int size_score = out[axis] == batch ? (axis == in.batch_axis ? 2 : 1) : 0;
    const int score = (axis == all.likely_axis ? 8 : 0) + (within == 1 ? 4 : 0) + size_score;
    if (within > 0 && out[axis] % batch == 0 && out[axis] / batch % within == 0 && score > best_score) {
      best = axis;
      best_score = score;
    }
    product *= out[axis];
  }
  if (best >= 0) return best;
  return MixesSamples(
      absl::StrCat("reshaping ", ShapeText(in.shape), " to ", ShapeText(out), " spreads a sample's numbers"));
}

// Strides of a view under another shape: only axes of size 1 may come and go, unless the view is in C order.
std::optional<StridedView> ReshapeView(const StridedView& x, const Shape& shape) {
  if (x.strides == RowMajorStrides(x.shape)) return StridedView{shape, RowMajorStrides(shape)};
  StridedView y{shape, Shape(shape.size(), 0)};
  size_t from = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    while (from < x.shape.size() && x.shape[from] == 1) ++from;
    if (from == x.shape.size() || x.shape[from] != shape[axis]) return std::nullopt;
    y.strides[axis] = x.strides[from++];
  }
  return y;
}

class ShapeChange : public Op {
 public:
  virtual absl::StatusOr<Shape> NewShape(const InputFacts& in) const = 0;

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    ASSIGN_OR_RETURN(Shape shape, NewShape(in));
    ASSIGN_OR_RETURN(const int64_t count, ElementCount(shape));
    if (count != Elements(in[0].shape)) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot turn ", ShapeText(in[0].shape), " into ", ShapeText(shape)));
    }
    return std::vector<Facts>{{in[0].dtype, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    if (in[0].batch_axis < 0) return std::vector<int>{-1};
    ASSIGN_OR_RETURN(const int axis, ReshapedBatchAxis(in[0], out[0].shape, in));
    return std::vector<int>{axis};
  }
  absl::StatusOr<int64_t> FollowBeforeSamples(const InputFacts& in, const std::vector<Facts>& out) const override {
    if (in[0].batch_axis < 0) return 1;
    const Shape& shape = out[0].shape;
    return BeforeWithin(BeforeSamples(in[0]), Elements({shape.begin(), shape.begin() + out[0].batch_axis}));
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    if (in[0].constant == nullptr) return std::nullopt;
    HostTensor y = *in[0].constant;
    ASSIGN_OR_RETURN(y.shape, NewShape(in));
    return std::vector<HostTensor>{std::move(y)};
  }
  InputRole RoleOf(int input) const override { return input == 0 ? InputRole::kNumbers : InputRole::kShape; }
  bool IsAlias() const override { return true; }
  bool DifferentiableIn(int input) const override { return input == 0; }
  std::optional<StridedView> ViewOf(const StridedView& x) const override { return ReshapeView(x, out_[0]); }
  bool PullbackReadsInput(int, int) const override { return false; }

  void Forward(const ForwardArgs&) const override {}  // the same memory
  void Pullback(int, const PullbackArgs&, Lanes) const override {}
};

// Reshape: 0 keeps the axis (unless allowzero), -1 takes what is left.
class Reshape : public ShapeChange {
 public:
  explicit Reshape(bool allow_zero) : allow_zero_(allow_zero) {}
  absl::StatusOr<Shape> NewShape(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(Shape shape, ConstantInts(in, 1, "the shape to reshape to"));
    const Shape& from = in[0].shape;
    int64_t known = 1;
    int open = -1;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] == 0 && !allow_zero_) {
        if (axis >= from.size()) return absl::InvalidArgumentError("a 0 in the shape has no axis to keep");
        shape[axis] = from[axis];
      }
      if (shape[axis] == -1) {
        if (open >= 0) return absl::InvalidArgumentError("two axes of the shape are -1");
        open = static_cast<int>(axis);
      } else if (shape[axis] < 0 || __builtin_mul_overflow(known, shape[axis], &known)) {
        return absl::InvalidArgumentError(absl::StrCat("the shape ", ShapeText(shape), " is not one"));
      }
    }
    if (open >= 0) shape[open] = known == 0 ? 0 : Elements(from) / known;
    return shape;
  }

 private:
  bool allow_zero_;
};

class Flatten : public ShapeChange {
 public:
  explicit Flatten(int64_t axis) : axis_(axis) {}
  absl::StatusOr<Shape> NewShape(const InputFacts& in) const override {
    const auto rank = static_cast<int64_t>(in[0].shape.size());
    if (axis_ < -rank || axis_ > rank) return absl::InvalidArgumentError(absl::StrCat("axis ", axis_, " is outside"));
    const auto middle = in[0].shape.begin() + (axis_ < 0 ? axis_ + rank : axis_);
    return Shape{Elements({in[0].shape.begin(), middle}), Elements({middle, in[0].shape.end()})};
  }

 private:
  int64_t axis_;
};

// Squeeze and Unsqueeze: axes by attribute before opset 13, by input from then on.
class Squeeze : public ShapeChange {
 public:
  explicit Squeeze(std::optional<std::vector<int64_t>> axes) : axes_(std::move(axes)) {}
  absl::StatusOr<Shape> NewShape(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(in));
    Shape shape = in[0].shape;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      if (shape[*axis] != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("axis ", *axis, " of ", ShapeText(in[0].shape), " is not of size 1"));
      }
      shape.erase(shape.begin() + *axis);
    }
    return shape;
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    const int batch_axis = in[0].batch_axis;
    if (batch_axis < 0) return std::vector<int>{-1};
    ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(in));
    const auto it = std::lower_bound(axes.begin(), axes.end(), batch_axis);
    if (it != axes.end() && *it == batch_axis) return MixesSamples("it takes the axis of the samples away");
    return std::vector<int>{batch_axis - static_cast<int>(it - axes.begin())};
  }

 private:
  // Those of size 1 when none are named.
  absl::StatusOr<std::vector<int64_t>> Axes(const InputFacts& in) const {
    const Shape& from = in[0].shape;
    std::vector<int64_t> axes = axes_.value_or(std::vector<int64_t>{});
    if (in.has(1)) {
      ASSIGN_OR_RETURN(axes, ConstantInts(in, 1, "the axes to squeeze"));
    }
    for (size_t axis = 0; !axes_ && !in.has(1) && axis < from.size(); ++axis) {
      if (from[axis] == 1) axes.push_back(static_cast<int64_t>(axis));
    }
    return NormalAxes(std::move(axes), from.size());
  }
  std::optional<std::vector<int64_t>> axes_;
};

class Unsqueeze : public ShapeChange {
 public:
  explicit Unsqueeze(std::optional<std::vector<int64_t>> axes) : axes_(std::move(axes)) {}
  absl::StatusOr<Shape> NewShape(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(in));
    Shape shape = in[0].shape;
    for (int64_t axis : axes) shape.insert(shape.begin() + axis, 1);
    return shape;
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    int batch_axis = in[0].batch_axis;
    if (batch_axis < 0) return std::vector<int>{-1};
    ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(in));
    for (int64_t axis : axes) batch_axis += axis <= batch_axis ? 1 : 0;
    return std::vector<int>{batch_axis};
  }

 private:
  absl::StatusOr<std::vector<int64_t>> Axes(const InputFacts& in) const {
    std::vector<int64_t> axes = axes_.value_or(std::vector<int64_t>{});
    if (!axes_) {
      ASSIGN_OR_RETURN(axes, ConstantInts(in, 1, "the axes to unsqueeze"));
    }
    return NormalAxes(axes, in[0].shape.size() + axes.size());
  }
  std::optional<std::vector<int64_t>> axes_;
};

class Identity : public ShapeChange {
 public:
  absl::StatusOr<Shape> NewShape(const InputFacts& in) const override { return in[0].shape; }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    return std::vector<int>{in[0].batch_axis};
  }
};

absl::StatusOr<std::optional<std::vector<int64_t>>> AxesAttribute(const GraphNode& node) {
  if (!node.attributes.contains("axes")) return std::nullopt;
  ASSIGN_OR_RETURN(std::vector<int64_t> axes, IntsAttribute(node, "axes", {}));
  return axes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeReshape(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t allow_zero, IntAttribute(node, "allowzero", 0));
  return std::make_unique<Reshape>(allow_zero != 0);
}
absl::StatusOr<std::unique_ptr<Op>> MakeFlatten(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", 1));
  return std::make_unique<Flatten>(axis);
}
absl::StatusOr<std::unique_ptr<Op>> MakeSqueeze(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(auto axes, AxesAttribute(node));
  return std::make_unique<Squeeze>(std::move(axes));
}
absl::StatusOr<std::unique_ptr<Op>> MakeUnsqueeze(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(auto axes, AxesAttribute(node));
  return std::make_unique<Unsqueeze>(std::move(axes));
}
absl::StatusOr<std::unique_ptr<Op>> MakeIdentity(const GraphNode&, int) { return std::make_unique<Identity>(); }

}  // namespace jacserve::worker
