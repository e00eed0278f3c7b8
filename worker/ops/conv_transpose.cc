// ConvTranspose: the transpose, in x, of a convolution from y's shape to x's: y[o, s l + d k - pad] += w[i, o, k] x[i,
// l], plus b[o]. With P the patches of ct_y under that convolution: ct_x = W P, ct_W = x P^T, ct_b = sum ct_y.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/lanes.h"
#include "worker/ops/op_table.h"
#include "worker/ops/window.h"

namespace jacserve::worker {
namespace {

class ConvTranspose : public Op {
 public:
  ConvTranspose(WindowAttributes window, int64_t groups) : window_(std::move(window)), groups_(groups) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1)) return absl::InvalidArgumentError("needs an input and a kernel");
    ASSIGN_OR_RETURN(const WindowGeometry g, GeometryOf(in[0].shape, in[1].shape));
    RETURN_IF_ERROR(CheckConvBias(in, g.in_channels));
    return std::vector<Facts>{{in[0].dtype, WindowOutputShape(in[0].shape, g.in_channels, g.in)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    return FollowConvBatchAxis(in);
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    ASSIGN_OR_RETURN(g_, GeometryOf(in[0], in[1]));
    images_ = in[0][0];
    return absl::OkStatus();
  }

  bool PullbackReadsInput(int ct_input, int input) const override {
    return (ct_input == 0 && input == 1) || (ct_input == 1 && input == 0);
  }
  int64_t ScratchElements(const Backend& backend) const override {
    return std::max({backend.ConvScratchElements(g_) + images_ * g_.InSize(), 2 * g_.PatchSize()}) + 128;
  }
  double Flops() const override { return 2.0 * images_ * g_.out_channels * g_.K() * g_.L(); }

  void Forward(const ForwardArgs& args) const override {
    for (int64_t image = 0; image < images_; ++image) {
      args.backend.ConvDataPullback(g_, args.lanes, InX(args.x[0], image, args), args.x[1], InY(args.y[0], image, args),
                                    args.scratch);
    }
    if (in_.size() > 2) args.backend.Affine(BiasChannels(), args.lanes, args.y[0], {}, args.x[2], args.y[0]);
  }

  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    const Backend& backend = args.backend;
    if (input == 2) {
      backend.ChannelRows(BiasChannels(), {args.lanes, 1}, args.ct_y[0], {}, ct_x, false);
      return;
    }
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      for (int64_t image = 0; image < images_; ++image) {
        const Scratch::Frame frame(args.scratch);
        const Lanes patches = PatchesOf(From(InY(args.ct_y[0], image, args), lane, backend), 1, args);
        if (input == 0) {
          backend.ConvForward(g_, 1, patches, From(args.x[1], lane, backend),
                              LaneOf(InX(ct_x, image, args), lane, args));
        } else {
          backend.ConvWeightRows(g_, {1, 1}, From(InX(args.x[0], image, args), lane, backend), patches,
                                 LaneOf(ct_x, lane, args), image > 0);
        }
      }
    }
  }

  void PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const override {
    const Backend& backend = args.backend;
    const Lanes target{rows.data, rows.row_stride};
    if (input == 0 || !rows.contiguous()) {
      Op::PullbackToRows(input, terms, args, rows);
    } else if (input == 2) {
      backend.ChannelRows(BiasChannels(), terms, args.ct_y[0], {}, target, rows.accumulate);
    } else {
      for (int64_t lane = 0; lane < terms.lanes(); ++lane) {
        for (int64_t image = 0; image < images_; ++image) {
          const Scratch::Frame frame(args.scratch);
          const Lanes patches = PatchesOf(From(InY(args.ct_y[0], image, args), lane, backend), 1, args);
          backend.ConvWeightRows(g_, {1, 1}, From(InX(args.x[0], image, args), lane, backend), patches,
                                 LaneOf(target, lane / terms.per_row, args),
                                 rows.accumulate || lane % terms.per_row > 0 || image > 0);
        }
      }
    }
  }

  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    const Backend& backend = args.backend;
    const int64_t n = images_ * g_.InSize();
    backend.Fill(args.lanes, n, 0.0, tan_y[0]);
    const auto add = [&](const ConstLanes& x, const ConstLanes& w) {  // one lane at a time: the scratch is for one
      for (int64_t lane = 0; lane < args.lanes; ++lane) {
        const Scratch::Frame frame(args.scratch);
        const Lanes product{args.scratch.Take(n * backend.element_bytes()), 0};
        for (int64_t image = 0; image < images_; ++image) {
          backend.ConvDataPullback(g_, 1, From(InX(x, image, args), lane, backend), From(w, lane, backend),
                                   InY(product, image, args), args.scratch);
        }
        backend.CopyStrided(1, {n}, product, {1}, LaneOf(tan_y[0], lane, args), {1}, true, 1.0);
      }
    };
    if (args.tan_x[0].data != nullptr) add(args.tan_x[0], args.x[1]);
    if (args.tan_x[1].data != nullptr) add(args.x[0], args.tan_x[1]);
    if (in_.size() > 2 && args.tan_x[2].data != nullptr) {
      backend.Affine(BiasChannels(), args.lanes, tan_y[0], {}, args.tan_x[2], tan_y[0]);
    }
  }

 private:
  absl::StatusOr<WindowGeometry> GeometryOf(const Shape& x, const Shape& w) const {
    ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, window_.KernelSizes(x, w));
    if (x[1] != w[0] || w[0] % groups_ != 0 || w[0] == 0 || w[1] == 0) {
      return absl::InvalidArgumentError(absl::StrCat("a kernel of shape ", ShapeText(w), " in ", groups_,
                                                     " groups does not fit an input of shape ", ShapeText(x)));
    }
    ASSIGN_OR_RETURN(WindowGeometry g, window_.TransposedGeometry(x, kernel));
    g.in_channels = w[1] * groups_;
    g.out_channels = w[0];
    g.groups = groups_;
    return g;
  }

  Channels BiasChannels() const {
    return {images_ * g_.InSize(), std::max<int64_t>(WindowGeometry::Volume(g_.in), 1), g_.in_channels};
  }

  // One image of every lane of a value of x's or y's shape; one lane.
  template <class L, class Args>
  L InX(const L& lanes, int64_t image, const Args& args) const {
    return At(lanes, image * g_.OutSize(), args.backend);
  }
  template <class L, class Args>
  L InY(const L& lanes, int64_t image, const Args& args) const {
    return At(lanes, image * g_.InSize(), args.backend);
  }
  template <class Args>
  static Lanes LaneOf(const Lanes& lanes, int64_t lane, const Args& args) {
    return At(lanes, lane * lanes.stride, args.backend);
  }

  Lanes PatchesOf(const ConstLanes& ct_y, int64_t lanes, const PullbackArgs& args) const {
    const Lanes patches{args.scratch.Take(g_.PatchSize() * args.backend.element_bytes()), 0};
    args.backend.Patches(g_, lanes, ct_y, patches);
    return patches;
  }

  WindowAttributes window_;
  int64_t groups_;
  int64_t images_ = 1;
  WindowGeometry g_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeConvTranspose(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(WindowAttributes window, WindowAttributes::Read(node));
  ASSIGN_OR_RETURN(const int64_t groups, IntAttribute(node, "group", 1));
  if (groups < 1) return absl::InvalidArgumentError(absl::StrCat("group ", groups, " must be positive"));
  return std::make_unique<ConvTranspose>(std::move(window), groups);
}

}  // namespace jacserve::worker
