// Resize and Upsample: along one axis after the other, y[q] = sum of weight * x[index] over the taps of q; ct_x[index]
// += weight * ct_y[q], axes in the other order. Scales or sizes must be known when the graph is compiled.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"
#include "worker/ops/resize_taps.h"

namespace jacserve::worker {
namespace {

struct Form {
  ResizeModes modes;
  std::vector<float> scales;  // by attribute
  int scales_input = -1, sizes_input = -1;
  std::vector<int64_t> axes;  // empty: all
  std::string policy = "stretch";
};

class Resize : public Op {
 public:
  explicit Resize(Form form) : form_(std::move(form)) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    ASSIGN_OR_RETURN(const std::vector<Axis> axes, Axes(in));
    Facts y{in[0].dtype, {}};
    for (const Axis& axis : axes) {
      constexpr int64_t kMostOut = int64_t{1} << 24;  // each has a list of what it is made of
      if (axis.out > kMostOut) {
        return absl::UnimplementedError(absl::StrCat("a resize to ", axis.out, " along one axis"));
      }
      y.shape.push_back(axis.out);
    }
    RETURN_IF_ERROR(ElementCount(y.shape).status());
    return std::vector<Facts>{std::move(y)};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    const int axis = in[0].batch_axis;
    if (axis >= 0 && out[0].shape[axis] != in[0].shape[axis]) return MixesSamples("it resizes along the samples");
    return std::vector<int>{axis};
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    ASSIGN_OR_RETURN(const std::vector<Axis> axes, Axes(facts));
    Shape shape = in[0];
    largest_ = Elements(shape);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (static_cast<int>(axis) == facts[0].batch_axis) continue;
      Pass pass{Elements({shape.begin(), shape.begin() + axis}),
                shape[axis],
                axes[axis].out,
                Elements({shape.begin() + axis + 1, shape.end()}),
                {}};
      pass.runs = ResizeRuns(form_.modes, pass.in, pass.out, axes[axis].scale);
      shape[axis] = pass.out;
      largest_ = std::max(largest_, Elements(shape));
      if (!pass.runs.empty() && pass.outer * pass.inner > 0) passes_.push_back(std::move(pass));
    }
    return absl::OkStatus();
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  bool PullbackReadsInput(int, int) const override { return false; }
  int64_t ScratchElements(const Backend&) const override { return 2 * (largest_ + 16); }

  void Forward(const ForwardArgs& args) const override { Run(args, args.x[0], args.y[0], false); }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override { Run(args, args.ct_y[0], ct_x, true); }
  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    Run(args, args.tan_x[0], tan_y[0], false);
  }

 private:
  struct Axis {
    int64_t out;
    double scale;
  };
  struct Pass {
    int64_t outer, in, out, inner;
    std::vector<ResizeRun> runs;
  };

  // All passes, or their transposes from the last to the first.
  template <class Args>
  void Run(const Args& args, const ConstLanes& from, Lanes to, bool transposed) const {
    const Backend& backend = args.backend;
    if (passes_.empty()) {
      backend.CopyStrided(args.lanes, {Elements(out_[0])}, from, {1}, to, {1}, false, 1.0);
      return;
    }
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const Scratch::Frame frame(args.scratch);
      const Lanes buffers[] = {{args.scratch.Take(largest_ * backend.element_bytes()), 0},
                               {args.scratch.Take(largest_ * backend.element_bytes()), 0}};
      const Lanes last{static_cast<std::byte*>(to.data) + lane * to.stride * backend.element_bytes(), 0};
      ConstLanes source = From(from, lane, backend);
      for (size_t k = 0; k < passes_.size(); ++k) {
        const Lanes target = k + 1 == passes_.size() ? last : buffers[k % 2];
        RunPass(backend, passes_[transposed ? passes_.size() - 1 - k : k], source, target, transposed);
        source = target;
      }
    }
  }

  static void RunPass(const Backend& backend, const Pass& pass, const ConstLanes& from, Lanes to, bool transposed) {
    const int64_t bytes = backend.element_bytes(), size = transposed ? pass.in : pass.out;
    backend.Fill(1, pass.outer * size * pass.inner, 0.0, to);
    for (const ResizeRun& run : pass.runs) {
      const Shape x_strides = {pass.in * pass.inner, run.x_step * pass.inner, 1};
      const Shape y_strides = {pass.out * pass.inner, run.y_step * pass.inner, 1};
      const int64_t x = run.x_begin * pass.inner * bytes, y = run.y_begin * pass.inner * bytes;
      const ConstLanes source{static_cast<const std::byte*>(from.data) + (transposed ? y : x), 0, nullptr};
      const Lanes target{static_cast<std::byte*>(to.data) + (transposed ? x : y), 0};
      backend.CopyStrided(1, {pass.outer, run.count, pass.inner}, source, transposed ? y_strides : x_strides, target,
                          transposed ? x_strides : y_strides, true, run.weight);
    }
  }

  absl::StatusOr<std::vector<Axis>> Axes(const InputFacts& in) const {
    const Shape& x = in[0].shape;
    std::vector<Axis> result;
    for (int64_t size : x) result.push_back({size, 1.0});
    std::vector<int64_t> axes = form_.axes;
    for (int64_t& axis : axes) {
      ASSIGN_OR_RETURN(axis, NormalAxis(axis, static_cast<int64_t>(x.size())));
    }
    if (axes.empty()) {
      for (size_t axis = 0; axis < x.size(); ++axis) axes.push_back(static_cast<int64_t>(axis));
    }
    const auto given = [&](int input) { return input >= 0 && in.has(input) && Elements(in[input].shape) > 0; };
    if (given(form_.sizes_input)) {
      ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, ConstantInts(in, form_.sizes_input, "the sizes"));
      RETURN_IF_ERROR(FollowSizes(x, axes, sizes, result));
      return result;
    }
    std::vector<double> scales(form_.scales.begin(), form_.scales.end());
    if (given(form_.scales_input)) {
      ASSIGN_OR_RETURN(scales, ConstantFloats(in, form_.scales_input, "the scales"));
    }
    if (scales.size() != axes.size()) {
      return absl::InvalidArgumentError(absl::StrCat(scales.size(), " scales for ", axes.size(), " axes"));
    }
    for (size_t k = 0; k < axes.size(); ++k) {
      const auto scale = static_cast<float>(scales[k]);
      // In float32, as scales are: 10 times 0.7 is 7.
      const float size = std::floor(scale * static_cast<float>(x[axes[k]]));
      if (!(scale > 0) || !(size < 9e15f)) return absl::InvalidArgumentError("a scale that is not positive");
      result[axes[k]] = {scale == 1.0f ? x[axes[k]] : static_cast<int64_t>(size), scale};
    }
    return result;
  }

  absl::Status FollowSizes(const Shape& x, const std::vector<int64_t>& axes, const std::vector<int64_t>& sizes,
                           std::vector<Axis>& result) const {
    if (sizes.size() != axes.size()) {
      return absl::InvalidArgumentError(absl::StrCat(sizes.size(), " sizes for ", axes.size(), " axes"));
    }
    std::optional<double> common;  // the scale of all axes, where their ratio is kept
    for (size_t k = 0; k < axes.size(); ++k) {
      if (sizes[k] < 0) return absl::InvalidArgumentError("a size that is negative");
      const int64_t from = std::max<int64_t>(x[axes[k]], 1);
      const double scale = static_cast<double>(sizes[k]) / static_cast<double>(from);
      result[axes[k]] = {sizes[k], scale};
      if (!common.has_value()) common = scale;
      common = form_.policy == "not_larger" ? std::min(*common, scale) : std::max(*common, scale);
    }
    if (form_.policy == "stretch" || !common.has_value()) return absl::OkStatus();
    for (int64_t axis : axes) {
      result[axis] = {static_cast<int64_t>(std::floor(*common * static_cast<double>(x[axis]) + 0.5)), *common};
    }
    return absl::OkStatus();
  }

  Form form_;
  std::vector<Pass> passes_;
  int64_t largest_ = 0;
};

absl::StatusOr<std::unique_ptr<Op>> Make(Form form) {
  RETURN_IF_ERROR(CheckResizeModes(form.modes));
  return std::make_unique<Resize>(std::move(form));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeResize(const GraphNode& node, int opset) {
  Form form;
  ASSIGN_OR_RETURN(form.modes.mode, StringAttribute(node, "mode", "nearest"));
  if (opset < 11) {
    form.modes.coordinates = "asymmetric";
    form.modes.nearest = "floor";
    form.scales_input = 1;
    return Make(std::move(form));
  }
  form.scales_input = 2;
  form.sizes_input = 3;
  ASSIGN_OR_RETURN(form.modes.coordinates, StringAttribute(node, "coordinate_transformation_mode", "half_pixel"));
  ASSIGN_OR_RETURN(form.modes.nearest, StringAttribute(node, "nearest_mode", "round_prefer_floor"));
  ASSIGN_OR_RETURN(form.modes.cubic_a, FloatAttribute(node, "cubic_coeff_a", -0.75));
  ASSIGN_OR_RETURN(const int64_t exclude, IntAttribute(node, "exclude_outside", 0));
  form.modes.exclude_outside = exclude != 0;
  ASSIGN_OR_RETURN(const int64_t antialias, IntAttribute(node, "antialias", 0));
  if (antialias != 0) return absl::UnimplementedError("a resize with antialias");
  ASSIGN_OR_RETURN(form.axes, IntsAttribute(node, "axes", {}));
  ASSIGN_OR_RETURN(form.policy, StringAttribute(node, "keep_aspect_ratio_policy", "stretch"));
  if (form.policy != "stretch" && form.policy != "not_larger" && form.policy != "not_smaller") {
    return absl::InvalidArgumentError(absl::StrCat("keep_aspect_ratio_policy ", form.policy, " is not one"));
  }
  return Make(std::move(form));
}

absl::StatusOr<std::unique_ptr<Op>> MakeUpsample(const GraphNode& node, int opset) {
  Form form{.modes = {.coordinates = "asymmetric", .nearest = "floor"}};
  ASSIGN_OR_RETURN(form.modes.mode, StringAttribute(node, "mode", "nearest"));
  if (form.modes.mode == "bilinear") form.modes.mode = "linear";
  if (opset >= 9) {
    form.scales_input = 1;
  } else {
    ASSIGN_OR_RETURN(form.scales, FloatsAttribute(node, "scales", {}));
  }
  return Make(std::move(form));
}

}  // namespace jacserve::worker
