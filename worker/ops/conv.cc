// Conv: y[o, l] = sum_{i, k} w[o, i, k] x[i, s l + d k - pad] + b[o], groups of channels apart.
// With patches P [K, L] of x: y = W P. Pullbacks: ct_x = W^T ct_y folded back, ct_W = ct_y P^T, ct_b = sum_l ct_y.
// Rows of a shared W: ct_y P^T summed over a row's terms, written in the parameter's own layout: [o, (i, k)] or
// [(k, i), o], whichever the view of the parameter asks for. Several images of one sample are taken one after another.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/lanes.h"
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
    RETURN_IF_ERROR(CheckConvBias(in, g.out_channels));
    return std::vector<Facts>{{in[0].dtype, WindowOutputShape(in[0].shape, g.out_channels, g.out)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    return FollowConvBatchAxis(in);
  }

  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    images_ = in[0][0];
    ASSIGN_OR_RETURN(g_, GeometryOf(in[0], in[1]));
    return absl::OkStatus();
  }

  bool PullbackReadsInput(int ct_input, int input) const override { return ct_input == 0 && input == 1; }
  bool PullbackReadsSaved(int ct_input) const override { return ct_input == 1; }
  int64_t SavedElements(const Backend&) const override { return images_ * g_.PatchSize(); }
  int64_t ScratchElements(const Backend& backend) const override {
    const int64_t pushed = g_.PatchSize() + images_ * g_.OutSize() + 64;
    return std::max({backend.ConvScratchElements(g_), g_.kernel_major ? g_.PatchSize() : 0, pushed}) + KernelElements();
  }
  double Flops() const override { return 2.0 * images_ * g_.groups * (g_.out_channels / g_.groups) * g_.K() * g_.L(); }

  // HWIO: the output channel is innermost and the input channel next.
  void PreferRows(int input, const StridedView& view) override {
    if (input != 1) return;
    g_.kernel_major = view.strides == KernelMajorStrides();
  }

  void Forward(const ForwardArgs& args) const override {
    const Backend& backend = args.backend;
    const Scratch::Frame frame(args.scratch);
    const ConstLanes w = InPatchOrder(args.x[1], args);  // kernel_major: of a parameter, the same for all lanes
    for (int64_t image = 0; image < images_; ++image) {
      const Lanes patches = At(args.saved, image * g_.PatchSize(), args.backend);
      backend.Patches(g_, args.lanes, At(args.x[0], image * g_.InSize(), args.backend), patches);
      backend.ConvForward(g_, args.lanes, patches, w, At(args.y[0], image * g_.OutSize(), args.backend));
    }
    if (in_.size() > 2) backend.Affine(BiasChannels(), args.lanes, args.y[0], {}, args.x[2], args.y[0]);
  }

  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    const Backend& backend = args.backend;
    if (input == 2) {
      backend.ChannelRows(BiasChannels(), {args.lanes, 1}, args.ct_y[0], {}, ct_x, false);
      return;
    }
    for (int64_t image = 0; image < images_; ++image) {
      const ConstLanes ct_y = At(args.ct_y[0], image * g_.OutSize(), args.backend);
      if (input == 0) {
        const Lanes own = At(ct_x, image * g_.InSize(), args.backend);
        backend.ConvDataPullback(g_, args.lanes, ct_y, args.x[1], own, args.scratch);
        continue;
      }
      WindowGeometry plain = g_;
      plain.kernel_major = false;
      const ConstLanes patches = At(args.saved, image * g_.PatchSize(), args.backend);
      for (int64_t lane = 0; lane < args.lanes; ++lane) {
        const Scratch::Frame frame(args.scratch);
        ConstLanes own = From(patches, lane, backend);
        if (g_.kernel_major) own = ChannelMajor(own, args);
        backend.ConvWeightRows(plain, {1, 1}, From(ct_y, lane, backend), own,
                               At(ct_x, lane * ct_x.stride, args.backend), image > 0);
      }
    }
  }

  void PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const override {
    const Shape in_order = g_.kernel_major && input == 1 ? KernelMajorStrides() : RowMajorStrides(rows.shape);
    if (input == 0 || rows.strides != in_order) {
      Op::PullbackToRows(input, terms, args, rows);
      return;
    }
    const Lanes target{rows.data, rows.row_stride};
    if (input == 2) {
      args.backend.ChannelRows(BiasChannels(), terms, args.ct_y[0], {}, target, rows.accumulate);
      return;
    }
    for (int64_t image = 0; image < images_; ++image) {
      args.backend.ConvWeightRows(g_, terms, At(args.ct_y[0], image * g_.OutSize(), args.backend),
                                  At(args.saved, image * g_.PatchSize(), args.backend), target,
                                  rows.accumulate || image > 0);
    }
  }

  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    const Backend& backend = args.backend;
    const bool x_moves = args.tan_x[0].data != nullptr, w_moves = args.tan_x[1].data != nullptr;
    const int64_t l = g_.OutSize();
    if (!x_moves && !w_moves) backend.Fill(args.lanes, images_ * l, 0.0, tan_y[0]);
    for (int64_t lane = 0; lane < args.lanes && (x_moves || w_moves); ++lane) {
      for (int64_t image = 0; image < images_; ++image) {
        const Lanes y = At(tan_y[0], lane * tan_y[0].stride + image * l, args.backend);
        const Scratch::Frame frame(args.scratch);
        if (x_moves) {
          const Lanes patches{args.scratch.Take(g_.PatchSize() * backend.element_bytes()), 0};
          const ConstLanes x = At(args.tan_x[0], image * g_.InSize(), args.backend);
          backend.Patches(g_, 1, From(x, lane, backend), patches);
          backend.ConvForward(g_, 1, patches, InPatchOrder(From(args.x[1], lane, backend), args), y);
        }
        if (!w_moves) continue;
        const ConstLanes patches = From(At(args.saved, image * g_.PatchSize(), args.backend), lane, backend);
        const Lanes product = x_moves ? Lanes{args.scratch.Take(l * backend.element_bytes()), 0} : y;
        backend.ConvForward(g_, 1, patches, InPatchOrder(From(args.tan_x[1], lane, backend), args), product);
        if (x_moves) backend.CopyStrided(1, {l}, product, {1}, y, {1}, true, 1.0);
      }
    }
    if (in_.size() > 2 && args.tan_x[2].data != nullptr) {
      backend.Affine(BiasChannels(), args.lanes, tan_y[0], {}, args.tan_x[2], tan_y[0]);
    }
  }

 private:
  absl::StatusOr<WindowGeometry> GeometryOf(const Shape& x, const Shape& w) const {
    ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, window_.KernelSizes(x, w));
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

  Channels BiasChannels() const { return {images_ * g_.OutSize(), std::max<int64_t>(g_.L(), 1), g_.out_channels}; }

  // The kernel [o, (i, k)] of lane 0 in the order of the patches: itself, or [o, (k, i)] in scratch.
  template <class Args>
  ConstLanes InPatchOrder(const ConstLanes& w, const Args& args) const {
    if (!g_.kernel_major) return w;
    const Lanes own{args.scratch.Take(KernelElements() * args.backend.element_bytes()), 0};
    const int64_t volume = WindowGeometry::Volume(g_.kernel), inputs = g_.in_channels / g_.groups;
    args.backend.CopyStrided(1, {g_.out_channels, inputs, volume}, w, {inputs * volume, volume, 1}, own,
                             {inputs * volume, 1, inputs}, false, 1.0);
    return own;
  }

  // One lane's patches [(k, i), L] as [(i, k), L], in scratch.
  ConstLanes ChannelMajor(const ConstLanes& patches, const PullbackArgs& args) const {
    const int64_t volume = WindowGeometry::Volume(g_.kernel), inputs = g_.in_channels / g_.groups, l = g_.L();
    const Lanes own{args.scratch.Take(g_.PatchSize() * args.backend.element_bytes()), 0};
    args.backend.CopyStrided(1, {g_.groups, volume, inputs, l}, patches, {g_.K() * l, inputs * l, l, 1}, own,
                             {g_.K() * l, l, volume * l, 1}, false, 1.0);
    return own;
  }

  WindowAttributes window_;
  int64_t groups_;
  int64_t images_ = 1;
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
