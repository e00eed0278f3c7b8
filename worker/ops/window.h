// Attributes that convolution and pooling share: kernel, strides, dilations, pads, auto_pad.
// SAME: out = ceil(n/s); total = max((out-1)*s + (k-1)*d + 1 - n, 0); the odd one at the end (SAME_LOWER: at the
// start). Transposed: out = s (n-1) + output_padding + (k-1)*d + 1 - total, or given, or with SAME n*s; then total
// follows from it, and the odd one is at the start except with SAME_UPPER.
#pragma once

#include "absl/status/statusor.h"
#include "worker/ops/op.h"

namespace jacserve::worker {

class WindowAttributes {
 public:
  // Unimplemented: more than three spatial axes. InvalidArgument: sizes that are not positive, pads that are negative.
  static absl::StatusOr<WindowAttributes> Read(const GraphNode& node);

  // Geometry over a value [N, C, spatial...] under a kernel of these spatial sizes; channels are left to the caller.
  // InvalidArgument: the kernel does not fit.
  absl::StatusOr<WindowGeometry> Geometry(const Shape& x, const std::vector<int64_t>& kernel) const;

  // The convolution that a transposed one over x [N, C, spatial...] is the transpose of: from its output to x.
  absl::StatusOr<WindowGeometry> TransposedGeometry(const Shape& x, const std::vector<int64_t>& kernel) const;

  // Spatial sizes of a kernel w [.., .., spatial...] over x. InvalidArgument: ranks that differ, another kernel_shape.
  absl::StatusOr<std::vector<int64_t>> KernelSizes(const Shape& x, const Shape& w) const;

  const std::vector<int64_t>& kernel_shape() const { return kernel_shape_; }
  bool ceil_mode() const { return ceil_mode_; }

 private:
  // Checks the lists' lengths; fills sizes, strides and dilations, `in` with the spatial sizes of x.
  absl::StatusOr<WindowGeometry> Start(const Shape& x, const std::vector<int64_t>& kernel) const;
  bool same() const { return auto_pad_ == "SAME_UPPER" || auto_pad_ == "SAME_LOWER"; }

  std::vector<int64_t> kernel_shape_, strides_, dilations_, pads_, output_padding_, output_shape_;
  std::string auto_pad_;
  bool ceil_mode_ = false;
};

// [N, channels, spatial...] with the spatial sizes of `out`.
Shape WindowOutputShape(const Shape& x, int64_t channels, const Spatial& out);

// What convolutions and transposed ones share, inputs x, w and maybe a bias. InvalidArgument: a bias of another shape.
absl::Status CheckConvBias(const InputFacts& in, int64_t channels);
absl::StatusOr<std::vector<int>> FollowConvBatchAxis(const InputFacts& in);

}  // namespace jacserve::worker
