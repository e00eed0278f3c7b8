// Trilu: y = x on and above (or below) a diagonal of the last two axes, 0 elsewhere. ReverseSequence: the first
// `lens` steps of every sequence in the reverse order.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"
#include "worker/ops/parts.h"

namespace jacserve::worker {
namespace {

// One part per row: a product with a mask would turn the infinities of attention masks into NaN.
class Trilu : public PartsOp {
 public:
  explicit Trilu(bool upper) : upper_(upper) {}
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    if (in[0].shape.size() < 2) {
      return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeText(in[0].shape), " has no matrices"));
    }
    if (in.has(1)) {
      ASSIGN_OR_RETURN(const std::vector<int64_t> k, ConstantInts(in, 1, "the diagonal"));
      if (k.size() != 1) return absl::InvalidArgumentError("the diagonal is not one number");
    }
    return std::vector<Facts>{{in[0].dtype, in[0].shape}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    const int axis = in[0].batch_axis;
    if (axis >= static_cast<int>(in[0].shape.size()) - 2) return MixesSamples("it cuts the samples off at a diagonal");
    return std::vector<int>{axis};
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  std::vector<Part> Parts(const InputFacts& facts, const std::vector<Shape>& in,
                          const std::vector<Shape>&) const override {
    const Shape& x = in[0];
    const int64_t rows = x[x.size() - 2], columns = x[x.size() - 1], outer = Elements({x.begin(), x.end() - 2});
    const int64_t bound = rows + columns;
    const int64_t k = facts.has(1) ? std::clamp(IntsOf(*facts[1].constant)[0], -bound, bound) : 0;
    std::vector<Part> parts;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t begin = upper_ ? std::clamp<int64_t>(row + k, 0, columns) : 0;
      const int64_t end = upper_ ? columns : std::clamp<int64_t>(row + k + 1, 0, columns);
      const Shape strides = {rows * columns, 1};
      const int64_t offset = row * columns + begin;
      if (begin < end) parts.push_back({0, {outer, end - begin}, strides, strides, offset, offset});
    }
    return parts;
  }

 private:
  bool upper_;
};

class ReverseSequence : public PartsOp {
 public:
  ReverseSequence(int64_t time_axis, int64_t batch_axis) : time_axis_(time_axis), sequence_axis_(batch_axis) {}
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    ASSIGN_OR_RETURN(const std::vector<int64_t> lens, ConstantInts(in, 1, "the lengths of the sequences"));
    const Shape& shape = in[0].shape;
    if (shape.size() < 2 || time_axis_ + sequence_axis_ != 1 || time_axis_ * sequence_axis_ != 0 ||
        static_cast<int64_t>(lens.size()) != shape[sequence_axis_]) {
      return absl::InvalidArgumentError(
          absl::StrCat(lens.size(), " lengths do not fit sequences of shape ", ShapeText(shape)));
    }
    for (int64_t length : lens) {
      if (length < 0 || length > shape[time_axis_]) {
        return absl::InvalidArgumentError(
            absl::StrCat("a length of ", length, " in sequences of ", shape[time_axis_], " steps"));
      }
    }
    return std::vector<Facts>{{in[0].dtype, shape}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    if (in[0].batch_axis == time_axis_) return MixesSamples("it reorders the samples");
    if (in[0].batch_axis == sequence_axis_ && in.batch > 1) {
      return MixesSamples("it has another length for every sample");
    }
    return std::vector<int>{in[0].batch_axis};
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  std::vector<Part> Parts(const InputFacts& facts, const std::vector<Shape>& in,
                          const std::vector<Shape>&) const override {
    const std::vector<int64_t> lens = IntsOf(*facts[1].constant);
    const Shape& x = in[0];
    const int64_t inner = Elements({x.begin() + 2, x.end()}), steps = x[time_axis_];
    const int64_t step = time_axis_ == 0 ? x[1] * inner : inner, sequence = time_axis_ == 0 ? inner : x[1] * inner;
    std::vector<Part> parts;
    for (int64_t s = 0; s < x[sequence_axis_]; ++s) {
      const int64_t length = lens[s], begin = s * sequence;
      parts.push_back(
          {0, {length, inner}, {-step, 1}, {step, 1}, begin + std::max<int64_t>(length - 1, 0) * step, begin});
      parts.push_back({0, {steps - length, inner}, {step, 1}, {step, 1}, begin + length * step, begin + length * step});
    }
    return parts;
  }

 private:
  int64_t time_axis_, sequence_axis_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeTrilu(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t upper, IntAttribute(node, "upper", 1));
  return std::make_unique<Trilu>(upper != 0);
}

absl::StatusOr<std::unique_ptr<Op>> MakeReverseSequence(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t time_axis, IntAttribute(node, "time_axis", 0));
  ASSIGN_OR_RETURN(const int64_t batch_axis, IntAttribute(node, "batch_axis", 1));
  return std::make_unique<ReverseSequence>(time_axis, batch_axis);
}

}  // namespace jacserve::worker
