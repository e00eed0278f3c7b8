// Slice: y[q] = x[start + q step] along each axis that is named; by attributes before opset 10, by inputs from then on.
#include <algorithm>

#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"
#include "worker/ops/parts.h"

namespace jacserve::worker {
namespace {

class Slice : public PartsOp {
 public:
  struct Lists {
    std::vector<int64_t> starts, ends, axes;
  };
  explicit Slice(std::optional<Lists> lists) : lists_(std::move(lists)) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const std::vector<Range> ranges, Ranges(in));
    Facts y{in[0].dtype, {}};
    for (const Range& range : ranges) y.shape.push_back(range.count);
    return std::vector<Facts>{std::move(y)};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    const int axis = in[0].batch_axis;
    ASSIGN_OR_RETURN(const std::vector<Range> ranges, Ranges(in));
    if (axis >= 0 && (out[0].shape[axis] != in[0].shape[axis] || ranges[axis].step != 1)) {
      return MixesSamples("it picks or reorders samples");
    }
    return std::vector<int>{axis};
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  InputRole RoleOf(int input) const override { return input == 2 ? InputRole::kShape : InputRole::kNumbers; }  // ends
  std::vector<Part> Parts(const InputFacts& facts, const std::vector<Shape>& in,
                          const std::vector<Shape>& out) const override {
    const std::vector<Range> ranges = *Ranges(facts);  // was checked when shapes were inferred
    Part part{0, out[0], RowMajorStrides(in[0]), RowMajorStrides(out[0])};
    for (size_t axis = 0; axis < out[0].size(); ++axis) {
      part.x_offset += ranges[axis].start * part.x_strides[axis];
      part.x_strides[axis] *= ranges[axis].step;
    }
    return {part};
  }

 private:
  struct Range {
    int64_t start = 0, step = 1, count = 0;
  };
  absl::StatusOr<std::vector<Range>> Ranges(const InputFacts& in) const {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    const Shape& shape = in[0].shape;
    Lists lists = lists_.value_or(Lists{});
    std::vector<int64_t> steps;
    if (!lists_) {
      ASSIGN_OR_RETURN(lists.starts, ConstantInts(in, 1, "where to start"));
      ASSIGN_OR_RETURN(lists.ends, ConstantInts(in, 2, "where to end"));
      if (in.has(3)) {
        ASSIGN_OR_RETURN(lists.axes, ConstantInts(in, 3, "the axes to slice"));
      }
      if (in.has(4)) {
        ASSIGN_OR_RETURN(steps, ConstantInts(in, 4, "the steps"));
      }
    }
    const size_t n = lists.starts.size();
    if (lists.ends.size() != n || (!lists.axes.empty() && lists.axes.size() != n) ||
        (!steps.empty() && steps.size() != n) || n > shape.size()) {
      return absl::InvalidArgumentError("starts, ends, axes and steps do not fit each other or the input");
    }
    std::vector<Range> ranges;
    for (int64_t size : shape) ranges.push_back({0, 1, size});
    for (size_t k = 0; k < n; ++k) {
      ASSIGN_OR_RETURN(const int64_t axis,
                       NormalAxis(lists.axes.empty() ? static_cast<int64_t>(k) : lists.axes[k], shape.size()));
      const int64_t size = shape[axis], step = steps.empty() ? 1 : steps[k];
      if (step == 0 || step == INT64_MIN) return absl::InvalidArgumentError("a step of 0");
      const auto place = [&](int64_t at, int64_t low, int64_t high) {
        return std::clamp(at < 0 ? (at < -size ? low : at + size) : at, low, high);
      };
      if (size == 0) continue;
      const int64_t start = place(lists.starts[k], 0, step > 0 ? size : size - 1);
      const int64_t end = place(lists.ends[k], step > 0 ? 0 : -1, step > 0 ? size : size - 1);
      const int64_t span = step > 0 ? end - start : start - end, stride = step > 0 ? step : -step;
      ranges[axis] = {start, step, span <= 0 ? 0 : (span - 1) / stride + 1};
    }
    return ranges;
  }
  std::optional<Lists> lists_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeSlice(const GraphNode& node, int opset) {
  if (opset >= 10) return std::make_unique<Slice>(std::nullopt);
  Slice::Lists lists;
  ASSIGN_OR_RETURN(lists.starts, IntsAttribute(node, "starts", {}));
  ASSIGN_OR_RETURN(lists.ends, IntsAttribute(node, "ends", {}));
  ASSIGN_OR_RETURN(lists.axes, IntsAttribute(node, "axes", {}));
  return std::make_unique<Slice>(std::move(lists));
}

}  // namespace jacserve::worker
