#include "worker/ops/reduce_axes.h"

#include <algorithm>
#include <numeric>

#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/broadcast.h"
#include "worker/ops/folding.h"

namespace jacserve::worker {

absl::StatusOr<ReduceForm> ReadReduceForm(const GraphNode& node) {
  ReduceForm form;
  if (node.attributes.contains("axes")) {
    ASSIGN_OR_RETURN(form.axes, IntsAttribute(node, "axes", {}));
  }
  ASSIGN_OR_RETURN(const int64_t keep, IntAttribute(node, "keepdims", 1));
  ASSIGN_OR_RETURN(const int64_t noop, IntAttribute(node, "noop_with_empty_axes", 0));
  form.keep = keep != 0;
  form.noop = noop != 0;
  return form;
}

absl::StatusOr<std::vector<int64_t>> ReduceOp::Axes(const InputFacts& in) const {
  std::vector<int64_t> axes = form_.axes.value_or(std::vector<int64_t>{});
  if (in.has(1)) {
    ASSIGN_OR_RETURN(axes, ConstantInts(in, 1, "the axes to reduce"));
  }
  if (axes.empty() && !form_.noop) {
    axes.resize(in[0].shape.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  return NormalAxes(std::move(axes), in[0].shape.size());
}

absl::StatusOr<std::vector<Facts>> ReduceOp::InferShapes(const InputFacts& in) const {
  if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(in));
  Shape shape;
  for (int64_t axis = 0; axis < static_cast<int64_t>(in[0].shape.size()); ++axis) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), axis);
    if (!reduced || form_.keep) shape.push_back(reduced ? 1 : in[0].shape[axis]);
  }
  return std::vector<Facts>{{in[0].dtype, std::move(shape)}};
}

absl::StatusOr<std::vector<int>> ReduceOp::FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const {
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(in));
  const int64_t batch_axis = in[0].batch_axis;
  if (batch_axis < 0) return std::vector<int>{-1};
  if (std::binary_search(axes.begin(), axes.end(), batch_axis)) return MixesSamples("it sums over the samples");
  const auto before = form_.keep ? 0 : std::lower_bound(axes.begin(), axes.end(), batch_axis) - axes.begin();
  return std::vector<int>{static_cast<int>(batch_axis - before)};
}

absl::StatusOr<std::optional<std::vector<HostTensor>>> ReduceOp::Fold(const InputFacts& in) const {
  if (in[0].constant == nullptr || Elements(in[0].shape) == 0) return std::nullopt;
  ASSIGN_OR_RETURN(const std::vector<Facts> out, InferShapes(in));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, Axes(in));
  Shape kept = in[0].shape;
  for (int64_t axis : axes) kept[axis] = 1;
  const std::vector<double> x = ConstantNumbers(*in[0].constant);
  const Shape steps = RowMajorStrides(in[0].shape), strides = BroadcastStrides(kept, in[0].shape);
  std::vector<std::vector<double>> lines(Elements(out[0].shape));
  for (size_t p = 0; p < x.size(); ++p) {
    int64_t rest = static_cast<int64_t>(p), line = 0;
    for (size_t axis = 0; axis < kept.size(); ++axis) {
      line += rest / steps[axis] * strides[axis];
      rest %= steps[axis];
    }
    lines[line].push_back(x[p]);
  }
  std::vector<double> y;
  for (const std::vector<double>& line : lines) y.push_back(of_line_(line));
  return std::vector<HostTensor>{ConstantOf(out[0].dtype, out[0].shape, y)};
}

absl::Status ReduceOp::Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) {
  RETURN_IF_ERROR(Op::Bind(facts, in, out));
  ASSIGN_OR_RETURN(axes_, Axes(facts));
  kept_ = in[0];
  for (int64_t axis : axes_) {
    count_ *= in[0][axis];
    kept_[axis] = 1;
  }
  return absl::OkStatus();
}

}  // namespace jacserve::worker
