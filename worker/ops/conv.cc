// Conv: y[o, l] = sum_{i, k} w[o, i, k] x[i, s l + d k - pad] + b[o], groups of channels apart.
// With patches P [K, L] of x: y = W P. Pullbacks: ct_x = W^T ct_y folded back, ct_W = ct_y P^T, ct_b = sum_l ct_y.
// Rows of a shared W: ct_y P^T summed over a row's terms, written in the parameter's own layout: [o, (i, k)] or
// [(k, i), o], whichever the view of the parameter asks for.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"
#include "worker/ops/window.h"

namespace jacserve::worker {
namespace {

class Conv : public Op {
 public:
  Conv(WindowAttributes window, int64_t groups) : window_(std::move(window)), groups_(groups) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1)) return absl::InvalidArgumentError("needs an input and a kernel");
    ASSIGN_OR_RETURN(const WindowGeometry g, GeometryOf(in[0].shape, in[1].shape));
    if (in.has(2) && in[2].shape != Shape{g.out_channels}) {
      return absl::InvalidArgumentError(
          absl::StrCat("a bias of shape ", ShapeText(in[2].shape), " for ", g.out_channels, " channels"));
    }
    return std::vector<Facts>{{in[0].dtype, WindowOutputShape(in[0].shape, g.out_channels, g.out)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    if (in[0].batch_axis > 0) return MixesSamples("it slides over, or sums, the samples");
    if (in[1].batch_axis >= 0 || (in.has(2) && in[2].batch_axis >= 0)) {
      return MixesSamples("its kernel holds one slice per sample");
    }
    return std::vector<int>{in[0].batch_axis};
  }

  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    if (in[0][0] != 1) {
      return absl::UnimplementedError(absl::StrCat("a convolution over ", in[0][0], " images per sample"));
    }
    ASSIGN_OR_RETURN(g_, GeometryOf(in[0], in[1]));
    return absl::OkStatus();
  }

  bool PullbackReadsInput(int ct_input, int input) const override { return ct_input == 0 && input == 1; }
  bool PullbackReadsSaved(int ct_input) const override { return ct_input == 1; }
  int64_t SavedElements(const Backend&) const override { return g_.PatchSize(); }
  int64_t ScratchElements(const Backend& backend) const override {
    return std::max(backend.ConvScratchElements(g_), g_.kernel_major ? g_.PatchSize() : 0) + KernelElements();
  }
  double Flops() const override { return 2.0 * g_.groups * (g_.out_channels / g_.groups) * g_.K() * g_.L(); }

  // HWIO: the output channel is innermost and the input channel next.
  void PreferRows(int input, const StridedView& view) override {
    if (input != 1) return;
    g_.kernel_major = view.strides == KernelMajorStrides();
  }

  void Forward(const ForwardArgs& args) const override {
    const Backend& backend = args.backend;
    backend.Patches(g_, args.lanes, args.x[0], args.saved);
    if (g_.kernel_major) {
      // The kernel in the patches' order, once for all lanes.
      const Scratch::Frame frame(args.scratch);
      const Lanes w{args.scratch.Take(KernelElements() * backend.element_bytes()), 0};
      const int64_t volume = WindowGeometry::Volume(g_.kernel), inputs = g_.in_channels / g_.groups;
      backend.CopyStrided(1, {g_.out_channels, inputs, volume}, args.x[1], {inputs * volume, volume, 1}, w,
                          {inputs * volume, 1, inputs}, false, 1.0);
      backend.ConvForward(g_, args.lanes, args.saved, w, args.y[0]);
    } else {
      backend.ConvForward(g_, args.lanes, args.saved, args.x[1], args.y[0]);
    }
    if (in_.size() > 2) {
      backend.CopyStrided(args.lanes, {g_.out_channels, g_.L()}, args.x[2], {1, 0}, args.y[0], {g_.L(), 1}, true, 1.0);
    }
  }

  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    const Backend& backend = args.backend;
    if (input == 0) {
      backend.ConvDataPullback(g_, args.lanes, args.ct_y[0], args.x[1], ct_x, args.scratch);
    } else if (input == 1) {
      WindowGeometry plain = g_;
      plain.kernel_major = false;
      const Scratch::Frame frame(args.scratch);
      ConstLanes patches = args.saved;
      for (int64_t lane = 0; lane < args.lanes; ++lane) {
        ConstLanes own = From(patches, lane, backend);
        if (g_.kernel_major) own = ChannelMajor(own, args);
        const Lanes target{static_cast<std::byte*>(ct_x.data) + lane * ct_x.stride * backend.element_bytes()};
        backend.ConvWeightRows(plain, {1, 1}, From(args.ct_y[0], lane, backend), own, target, false);
      }
    } else {
      backend.Fill(args.lanes, g_.out_channels, 0.0, ct_x);
      backend.CopyStrided(args.lanes, {g_.out_channels, g_.L()}, args.ct_y[0], {g_.L(), 1}, ct_x, {1, 0}, true, 1.0);
    }
  }

  void PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const override {
    const bool in_order = rows.strides == (g_.kernel_major ? KernelMajorStrides() : RowMajorStrides(rows.shape));
    if (input != 1 || !in_order) {
      Op::PullbackToRows(input, terms, args, rows);
      return;
    }
    args.backend.ConvWeightRows(g_, terms, args.ct_y[0], args.saved, {rows.data, rows.row_stride}, rows.accumulate);
  }

 private:
  absl::StatusOr<WindowGeometry> GeometryOf(const Shape& x, const Shape& w) const {
    if (w.size() != x.size() || w.size() < 3) {
      return absl::InvalidArgumentError(
          absl::StrCat("a kernel of shape ", ShapeText(w), " over an input of shape ", ShapeText(x)));
    }
    const std::vector<int64_t> kernel(w.begin() + 2, w.end());
    if (!window_.kernel_shape().empty() && window_.kernel_shape() != kernel) {
      return absl::InvalidArgumentError(absl::StrCat("kernel_shape ", ShapeText(window_.kernel_shape()),
                                                     " does not fit a kernel of shape ", ShapeText(w)));
    }
    if (x[1] != w[1] * groups_ || w[0] % groups_ != 0 || w[0] == 0 || w[1] == 0) {
      return absl::InvalidArgumentError(absl::StrCat("a kernel of shape ", ShapeText(w), " in ", groups_,
                                                     " groups does not fit an input of shape ", ShapeText(x)));
    }
    ASSIGN_OR_RETURN(WindowGeometry g, window_.Geometry(x, kernel));
    g.in_channels = x[1];
    g.out_channels = w[0];
    g.groups = groups_;
    return g;
  }

  int64_t KernelElements() const { return g_.out_channels * g_.K(); }

  // Strides of [o, i, k...] in the memory of [k..., i, o].
  Shape KernelMajorStrides() const {
    const Shape& w = in_[1];
    Shape strides(w.size(), 1);
    strides[1] = w[0];
    int64_t step = w[0] * w[1];
    for (size_t axis = w.size(); axis-- > 2;) {
      strides[axis] = step;
      step *= w[axis];
    }
    return strides;
  }

  // One lane's patches [(k, i), L] as [(i, k), L].
  ConstLanes ChannelMajor(const ConstLanes& patches, const PullbackArgs& args) const {
    const int64_t volume = WindowGeometry::Volume(g_.kernel), inputs = g_.in_channels / g_.groups, l = g_.L();
    const Scratch::Frame frame(args.scratch);  // the next lane reuses it
    const Lanes own{args.scratch.Take(g_.PatchSize() * args.backend.element_bytes()), 0};
    args.backend.CopyStrided(1, {g_.groups, volume, inputs, l}, patches, {g_.K() * l, inputs * l, l, 1}, own,
                             {g_.K() * l, l, volume * l, 1}, false, 1.0);
    return own;
  }

  WindowAttributes window_;
  int64_t groups_;
  WindowGeometry g_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeConv(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(WindowAttributes window, WindowAttributes::Read(node));
  ASSIGN_OR_RETURN(const int64_t groups, IntAttribute(node, "group", 1));
  if (groups < 1) return absl::InvalidArgumentError(absl::StrCat("group ", groups, " must be positive"));
  return std::make_unique<Conv>(std::move(window), groups);
}

}  // namespace jacserve::worker
