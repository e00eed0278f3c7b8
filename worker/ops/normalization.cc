// Normalisation of stretches of n numbers: normal = (x - mean) rstd, rstd = 1 / sqrt(mean((x - mean)^2) + epsilon),
// y[q] = normal[q] scale[c] + bias[c]. LayerNormalization: a stretch is all axes from `axis` on; RMSNormalization: the
// same with a mean of 0; InstanceNormalization: a channel; GroupNormalization: a group of channels.
// ct_x = rstd (h - mean(h) - normal mean(h normal)) with h = ct_y scale; ct_scale[c] = sum ct_y normal; ct_bias[c] =
// sum ct_y. Of LayerNormalization's other outputs: ct_x += ct_mean / n - ct_rstd rstd^2 normal / n.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/channels.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

enum class Kind { kLayer, kInstance, kGroup };

struct Form {
  Kind kind = Kind::kLayer;
  bool centred = true;
  double epsilon = 1e-5;
  int64_t axis = -1;               // kLayer: the first that is normalised over
  int64_t groups = 1;              // kGroup
  bool parameter_a_group = false;  // kGroup: scale and bias are per group, not per channel
  size_t outputs = 1;
};

class Normalization : public Op {
 public:
  explicit Normalization(Form form) : form_(form) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1)) return absl::InvalidArgumentError("needs an input and a scale");
    const Shape& x = in[0].shape;
    ASSIGN_OR_RETURN(const int64_t axis, FirstAxis(x));
    for (size_t i = 1; i < 3; ++i) {
      if (in.has(i)) RETURN_IF_ERROR(ParameterChannels(in[i].shape, x).status());
    }
    std::vector<Facts> out = {{in[0].dtype, x}};
    Shape stash = x;
    std::fill(stash.begin() + axis, stash.end(), 1);
    out.resize(form_.outputs, {in[0].dtype, stash});
    return out;
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    const int batch_axis = in[0].batch_axis;
    ASSIGN_OR_RETURN(const int64_t axis, FirstAxis(in[0].shape));
    if (batch_axis >= (form_.kind == Kind::kLayer ? axis : 1)) return MixesSamples("it normalises over the samples");
    for (size_t i = 1; i < 3; ++i) {
      RETURN_IF_ERROR(CheckParameterIsShared(in, i));
      if (!in.has(i) || batch_axis < 0 || form_.kind != Kind::kLayer) continue;
      const auto own = static_cast<int64_t>(in[i].shape.size() + batch_axis) - static_cast<int64_t>(in[0].shape.size());
      if (own >= 0 && in[i].shape[own] != 1) return MixesSamples("a parameter has another slice for every sample");
    }
    return std::vector<int>(form_.outputs, batch_axis);
  }

  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    const Shape& x = in[0];
    ASSIGN_OR_RETURN(const int64_t axis, FirstAxis(x));
    n_ = Elements(x);
    g_ = {Elements({x.begin(), x.begin() + axis}), Elements({x.begin() + axis, x.end()}), form_.centred, form_.epsilon};
    if (form_.kind == Kind::kGroup)
      g_ = {x[0] * form_.groups, n_ / std::max<int64_t>(x[0] * form_.groups, 1), true, form_.epsilon};
    ASSIGN_OR_RETURN(scale_, ParameterChannels(in[1], x));
    if (in.size() > 2) {
      ASSIGN_OR_RETURN(bias_, ParameterChannels(in[2], x));
    }
    return absl::OkStatus();
  }

  bool PullbackReadsInput(int ct_input, int input) const override { return ct_input == 0 && input == 1; }
  bool PullbackReadsSaved(int ct_input) const override { return ct_input < 2; }
  int64_t SavedElements(const Backend&) const override { return n_ + g_.groups; }
  int64_t ScratchElements(const Backend&) const override { return n_ + g_.groups + 64; }
  double Flops() const override { return 8.0 * static_cast<double>(n_); }

  void Forward(const ForwardArgs& args) const override {
    const Backend& backend = args.backend;
    const Lanes rstd{static_cast<std::byte*>(args.saved.data) + n_ * backend.element_bytes(), args.saved.stride};
    backend.Normalize(g_, args.lanes, args.x[0], args.saved, rstd, args.y.size() > 1 ? args.y[1] : Lanes{});
    if (args.y.size() > 2) {
      backend.CopyStrided(args.lanes, {g_.groups}, rstd, {1}, args.y[2], {1}, false, 1.0);
    }
    const bool biased = in_.size() > 2, together = biased && bias_ == scale_;
    backend.Affine(scale_, args.lanes, args.saved, args.x[1], together ? args.x[2] : ConstLanes{}, args.y[0]);
    if (biased && !together) backend.Affine(bias_, args.lanes, args.y[0], {}, args.x[2], args.y[0]);
  }

  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    const Backend& backend = args.backend;
    if (input > 0) {
      if (args.ct_y[0].data == nullptr) {
        backend.Fill(args.lanes, Elements(in_[input]), 0.0, ct_x);
      } else {
        backend.ChannelRows(input == 1 ? scale_ : bias_, {args.lanes, 1}, args.ct_y[0],
                            input == 1 ? args.saved : ConstLanes{}, ct_x, false);
      }
      return;
    }
    if (args.ct_y[0].data == nullptr) {
      backend.Fill(args.lanes, n_, 0.0, ct_x);
    } else {
      backend.NormalizePullback(g_, scale_, args.lanes, args.saved, Rstd(args), args.x[1], args.ct_y[0], ct_x);
    }
    if (args.ct_y.size() > 1 && args.ct_y[1].data != nullptr) {
      backend.CopyStrided(args.lanes, {g_.groups, g_.n}, args.ct_y[1], {1, 0}, ct_x, {g_.n, 1}, true,
                          1.0 / static_cast<double>(g_.n));
    }
    if (args.ct_y.size() > 2 && args.ct_y[2].data != nullptr) PullBackRstd(args, ct_x);
  }

  void PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const override {
    if (input == 0 || !rows.contiguous() || args.ct_y[0].data == nullptr) {
      Op::PullbackToRows(input, terms, args, rows);
      return;
    }
    args.backend.ChannelRows(input == 1 ? scale_ : bias_, terms, args.ct_y[0], input == 1 ? args.saved : ConstLanes{},
                             {rows.data, rows.row_stride}, rows.accumulate);
  }

  bool HasPushforward() const override { return form_.outputs == 1; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    const Backend& backend = args.backend;
    const Lanes& y = tan_y[0];
    if (args.tan_x[0].data == nullptr) {
      backend.Fill(args.lanes, n_, 0.0, y);
    } else {
      backend.NormalizePullback(g_, scale_, args.lanes, args.saved, Rstd(args), {}, args.tan_x[0], y);
      backend.Affine(scale_, args.lanes, y, args.x[1], {}, y);
    }
    AddGainTangent(scale_, args, args.saved, args.tan_x[1], y);
    if (in_.size() > 2 && args.tan_x[2].data != nullptr) {
      backend.Affine(bias_, args.lanes, y, {}, args.tan_x[2], y);
    }
  }

 private:
  absl::StatusOr<int64_t> FirstAxis(const Shape& x) const {
    if (form_.kind == Kind::kLayer) return NormalAxis(form_.axis, static_cast<int64_t>(x.size()));
    if (x.size() < 2) return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeText(x), " has no channels"));
    if (form_.kind == Kind::kInstance) return 2;
    if (x[1] % form_.groups != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(form_.groups, " groups do not divide the channels of ", ShapeText(x)));
    }
    return 1;
  }

  absl::StatusOr<Channels> ParameterChannels(const Shape& parameter, const Shape& x) const {
    if (form_.kind == Kind::kLayer) return BroadcastChannels(parameter, x);
    const int64_t channels = form_.parameter_a_group ? form_.groups : x[1];
    if (parameter != Shape{channels}) {
      return absl::InvalidArgumentError(absl::StrCat("a scale or bias of shape ", ShapeText(parameter), ", not [",
                                                     channels, "], for an input of shape ", ShapeText(x)));
    }
    const int64_t image = Elements({x.begin() + 1, x.end()});
    return Channels{Elements(x), std::max<int64_t>(image / std::max<int64_t>(channels, 1), 1), channels};
  }

  template <class Args>
  ConstLanes Rstd(const Args& args) const {
    ConstLanes rstd = args.saved;
    rstd.data = static_cast<const std::byte*>(rstd.data) + n_ * args.backend.element_bytes();
    return rstd;
  }

  // ct_x -= ct_rstd rstd^2 normal / n.
  void PullBackRstd(const PullbackArgs& args, Lanes ct_x) const {
    const Backend& backend = args.backend;
    const Shape groups = {g_.groups}, all = {g_.groups, g_.n};
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const Scratch::Frame frame(args.scratch);
      const Lanes factor{args.scratch.Take(g_.groups * backend.element_bytes()), g_.groups};
      const Lanes product{args.scratch.Take(n_ * backend.element_bytes()), n_};
      const ConstLanes rstd = From(Rstd(args), lane, backend);
      backend.Binary(BinaryFunction::kMul, 1, groups, rstd, {1}, rstd, {1}, factor);
      backend.Binary(BinaryFunction::kMul, 1, groups, factor, {1}, From(args.ct_y[2], lane, backend), {1}, factor);
      backend.Binary(BinaryFunction::kMul, 1, all, factor, {1, 0}, From(args.saved, lane, backend), {g_.n, 1}, product);
      const Lanes target{static_cast<std::byte*>(ct_x.data) + lane * ct_x.stride * backend.element_bytes()};
      backend.CopyStrided(1, {n_}, product, {1}, target, {1}, true, -1.0 / static_cast<double>(g_.n));
    }
  }

  Form form_;
  int64_t n_ = 0;
  NormGroups g_;
  Channels scale_, bias_;
};

absl::StatusOr<std::unique_ptr<Op>> Make(const GraphNode& node, Form form) {
  ASSIGN_OR_RETURN(form.epsilon, FloatAttribute(node, "epsilon", 1e-5));
  return std::make_unique<Normalization>(form);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeLayerNormalization(const GraphNode& node, int) {
  Form form;
  ASSIGN_OR_RETURN(form.axis, IntAttribute(node, "axis", -1));
  for (size_t k = 1; k < std::min<size_t>(node.outputs.size(), 3); ++k) {
    if (!node.outputs[k].empty()) form.outputs = k + 1;
  }
  return Make(node, form);
}

absl::StatusOr<std::unique_ptr<Op>> MakeRMSNormalization(const GraphNode& node, int) {
  Form form{.centred = false};
  ASSIGN_OR_RETURN(form.axis, IntAttribute(node, "axis", -1));
  return Make(node, form);
}

absl::StatusOr<std::unique_ptr<Op>> MakeInstanceNormalization(const GraphNode& node, int) {
  return Make(node, {.kind = Kind::kInstance});
}

absl::StatusOr<std::unique_ptr<Op>> MakeGroupNormalization(const GraphNode& node, int opset) {
  Form form{.kind = Kind::kGroup, .parameter_a_group = opset < 21};
  ASSIGN_OR_RETURN(form.groups, IntAttribute(node, "num_groups", 0));
  if (form.groups < 1) return absl::InvalidArgumentError("num_groups must be positive");
  return Make(node, form);
}

}  // namespace jacserve::worker
