#include "worker/ops/window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"

namespace jacserve::worker {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 31;  // keeps sums and products of window sizes far from overflow

absl::Status CheckSizes(const std::vector<int64_t>& sizes, int64_t smallest, const char* what) {
  for (int64_t size : sizes) {
    if (size < smallest || size > kLargestSize) {
      return absl::InvalidArgumentError(absl::StrCat(what, " ", ShapeText(sizes), " must be at least ", smallest));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WindowAttributes> WindowAttributes::Read(const GraphNode& node) {
  WindowAttributes result;
  ASSIGN_OR_RETURN(result.kernel_shape_, IntsAttribute(node, "kernel_shape", {}));
  ASSIGN_OR_RETURN(result.strides_, IntsAttribute(node, "strides", {}));
  ASSIGN_OR_RETURN(result.dilations_, IntsAttribute(node, "dilations", {}));
  ASSIGN_OR_RETURN(result.pads_, IntsAttribute(node, "pads", {}));
  ASSIGN_OR_RETURN(result.auto_pad_, StringAttribute(node, "auto_pad", "NOTSET"));
  ASSIGN_OR_RETURN(const int64_t ceil_mode, IntAttribute(node, "ceil_mode", 0));
  result.ceil_mode_ = ceil_mode != 0;
  RETURN_IF_ERROR(CheckSizes(result.kernel_shape_, 1, "kernel_shape"));
  RETURN_IF_ERROR(CheckSizes(result.strides_, 1, "strides"));
  RETURN_IF_ERROR(CheckSizes(result.dilations_, 1, "dilations"));
  RETURN_IF_ERROR(CheckSizes(result.pads_, 0, "pads"));
  ASSIGN_OR_RETURN(result.output_padding_, IntsAttribute(node, "output_padding", {}));
  ASSIGN_OR_RETURN(result.output_shape_, IntsAttribute(node, "output_shape", {}));
  RETURN_IF_ERROR(CheckSizes(result.output_padding_, 0, "output_padding"));
  RETURN_IF_ERROR(CheckSizes(result.output_shape_, 1, "output_shape"));
  if (result.auto_pad_ != "NOTSET" && result.auto_pad_ != "VALID" && !result.same() && !result.auto_pad_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("auto_pad ", result.auto_pad_, " is not one"));
  }
  return result;
}

absl::StatusOr<WindowGeometry> WindowAttributes::Start(const Shape& x, const std::vector<int64_t>& kernel) const {
  const size_t axes = x.size() < 2 ? 0 : x.size() - 2;
  if (axes < 1 || axes > kSpatialAxes) {
    return absl::UnimplementedError(absl::StrCat("a window over an input of shape ", ShapeText(x)));
  }
  const auto fits = [&](const std::vector<int64_t>& list, size_t n) { return list.empty() || list.size() == n; };
  if (kernel.size() != axes || !fits(strides_, axes) || !fits(dilations_, axes) || !fits(pads_, 2 * axes)) {
    return absl::InvalidArgumentError(absl::StrCat("kernel_shape, strides, dilations or pads do not have the ", axes,
                                                   " spatial axes of ", ShapeText(x)));
  }
  RETURN_IF_ERROR(CheckSizes(kernel, 1, "the kernel"));
  RETURN_IF_ERROR(CheckSizes({x.begin() + 2, x.end()}, 0, "the input"));
  // Padding makes room for any window over any input; each costs its whole volume, wherever it lies.
  constexpr int64_t kMostPositions = int64_t{1} << 20;
  const absl::StatusOr<int64_t> positions = ElementCount(Shape(kernel.begin(), kernel.end()));
  if (!positions.ok() || *positions > kMostPositions) {
    return absl::UnimplementedError(
        absl::StrCat("a window of ", ShapeText(kernel), ", which has more than ", kMostPositions, " positions"));
  }
  WindowGeometry g;
  for (size_t axis = 0; axis < axes; ++axis) {
    const size_t to = axis + kSpatialAxes - axes;
    g.in[to] = x[axis + 2];
    g.kernel[to] = kernel[axis];
    g.stride[to] = strides_.empty() ? 1 : strides_[axis];
    g.dilation[to] = dilations_.empty() ? 1 : dilations_[axis];
  }
  return g;
}

absl::StatusOr<WindowGeometry> WindowAttributes::Geometry(const Shape& x, const std::vector<int64_t>& kernel) const {
  ASSIGN_OR_RETURN(WindowGeometry g, Start(x, kernel));
  const size_t axes = kernel.size();
  const bool pads_given = !pads_.empty() && auto_pad_ != "VALID" && !same();
  for (size_t axis = 0; axis < axes; ++axis) {
    const size_t to = axis + kSpatialAxes - axes;
    const int64_t reach = (g.kernel[to] - 1) * g.dilation[to] + 1;
    if (same()) {
      g.out[to] = (g.in[to] + g.stride[to] - 1) / g.stride[to];
      const int64_t total = std::max<int64_t>((g.out[to] - 1) * g.stride[to] + reach - g.in[to], 0);
      g.pad_begin[to] = auto_pad_ == "SAME_UPPER" ? total / 2 : total - total / 2;
      g.pad_end[to] = total - g.pad_begin[to];
      continue;
    }
    g.pad_begin[to] = pads_given ? pads_[axis] : 0;
    g.pad_end[to] = pads_given ? pads_[axis + axes] : 0;
    const int64_t room = g.in[to] + g.pad_begin[to] + g.pad_end[to] - reach;
    if (room < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the kernel ", ShapeText(kernel), " is larger than the padded input ", ShapeText(x)));
    }
    const bool up = ceil_mode_ && auto_pad_ != "VALID";
    g.out[to] = (up ? (room + g.stride[to] - 1) / g.stride[to] : room / g.stride[to]) + 1;
    // With ceil_mode a window must still begin inside the input or the padding before it.
    if (up && (g.out[to] - 1) * g.stride[to] >= g.in[to] + g.pad_begin[to]) --g.out[to];
  }
  constexpr double kMostVisits = 4294967296.0;  // 2^32
  double visits = 1;
  for (int axis = 0; axis < kSpatialAxes; ++axis) {
    visits *= static_cast<double>(g.kernel[axis]) * static_cast<double>(g.out[axis]);
  }
  if (visits > kMostVisits) {
    return absl::UnimplementedError(absl::StrCat("a window of ", ShapeText(kernel), " that slides over ", ShapeText(x),
                                                 " and its padding at too many places"));
  }
  return g;
}

absl::StatusOr<WindowGeometry> WindowAttributes::TransposedGeometry(const Shape& x,
                                                                    const std::vector<int64_t>& kernel) const {
  ASSIGN_OR_RETURN(WindowGeometry g, Start(x, kernel));
  std::swap(g.in, g.out);
  const size_t axes = kernel.size();
  // Some files name the batch and the channels in output_shape too.
  const size_t lead = output_shape_.size() == axes + 2 ? 2 : 0;
  if ((!output_padding_.empty() && output_padding_.size() != axes) ||
      (!output_shape_.empty() && output_shape_.size() != axes + lead)) {
    return absl::InvalidArgumentError(
        absl::StrCat("output_padding or output_shape do not have the ", axes, " spatial axes of ", ShapeText(x)));
  }
  for (size_t axis = 0; axis < axes; ++axis) {
    const size_t to = axis + kSpatialAxes - axes;
    const int64_t reach = (g.kernel[to] - 1) * g.dilation[to] + 1;
    const int64_t full =
        g.out[to] == 0 ? 0
                       : g.stride[to] * (g.out[to] - 1) + reach + (output_padding_.empty() ? 0 : output_padding_[axis]);
    if (!output_shape_.empty() || same()) {
      g.in[to] = output_shape_.empty() ? g.out[to] * g.stride[to] : output_shape_[lead + axis];
      const int64_t total = std::max<int64_t>(full - g.in[to], 0);
      g.pad_begin[to] = auto_pad_ == "SAME_UPPER" ? total / 2 : total - total / 2;
      g.pad_end[to] = total - g.pad_begin[to];
      continue;
    }
    const bool pads_given = !pads_.empty() && auto_pad_ != "VALID";
    g.pad_begin[to] = pads_given ? pads_[axis] : 0;
    g.pad_end[to] = pads_given ? pads_[axis + axes] : 0;
    g.in[to] = full - g.pad_begin[to] - g.pad_end[to];
    if (g.in[to] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("pads ", ShapeText(pads_), " leave nothing of the output"));
    }
  }
  return g;
}

absl::StatusOr<std::vector<int64_t>> WindowAttributes::KernelSizes(const Shape& x, const Shape& w) const {
  if (w.size() != x.size() || w.size() < 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("a kernel of shape ", ShapeText(w), " over an input of shape ", ShapeText(x)));
  }
  std::vector<int64_t> kernel(w.begin() + 2, w.end());
  if (!kernel_shape_.empty() && kernel_shape_ != kernel) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel_shape ", ShapeText(kernel_shape_), " does not fit a kernel of shape ", ShapeText(w)));
  }
  return kernel;
}

absl::Status CheckConvBias(const InputFacts& in, int64_t channels) {
  if (!in.has(2) || in[2].shape == Shape{channels}) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a bias of shape ", ShapeText(in[2].shape), " for ", channels, " channels"));
}

absl::StatusOr<std::vector<int>> FollowConvBatchAxis(const InputFacts& in) {
  if (in[0].batch_axis > 0) return MixesSamples("it slides over, or sums, the samples");
  if (in[1].batch_axis >= 0 || (in.has(2) && in[2].batch_axis >= 0)) {
    return MixesSamples("its kernel holds one slice per sample");
  }
  return std::vector<int>{in[0].batch_axis};
}

Shape WindowOutputShape(const Shape& x, int64_t channels, const Spatial& out) {
  Shape shape = {x[0], channels};
  for (size_t axis = kSpatialAxes - (x.size() - 2); axis < kSpatialAxes; ++axis) shape.push_back(out[axis]);
  return shape;
}

}  // namespace jacserve::worker
