// BatchNormalization with given statistics: normal = (x - mean) r, r = 1 / sqrt(var + epsilon), y = normal scale +
// bias, per channel. ct_x = ct_y scale r; ct_scale = sum ct_y normal; ct_bias = sum ct_y; ct_mean = -scale r sum ct_y;
// ct_var = -1/2 scale r^2 sum ct_y normal.
// In training mode mean and var are those of x itself, over samples and space: normalisation of the channels of
// [C, N L], so x, ct_y and ct_x are moved into that order and back.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/channels.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

enum Input { kX, kScale, kBias, kMean, kVar };

class BatchNorm : public Op {
 public:
  BatchNorm(double epsilon, bool spatial) : epsilon_(epsilon), spatial_(spatial) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    for (size_t i = 0; i < 5; ++i) {
      if (!in.has(i)) return absl::InvalidArgumentError("needs an input, a scale, a bias, a mean and a variance");
    }
    const Shape& x = in[0].shape;
    if (x.empty()) return absl::InvalidArgumentError("its input is a scalar");
    const Shape parameter = ParameterShape(x);
    for (size_t i = 1; i < 5; ++i) {
      if (in[i].shape != parameter) {
        return absl::InvalidArgumentError(absl::StrCat("a parameter of shape ", ShapeText(in[i].shape), ", not ",
                                                       ShapeText(parameter), ", for an input of shape ", ShapeText(x)));
      }
    }
    return std::vector<Facts>{{in[0].dtype, x}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    if (in[0].batch_axis > 0 && (!spatial_ || in[0].batch_axis == 1)) {
      return MixesSamples("every sample has parameters of its own");
    }
    for (size_t i = 1; i < 5; ++i) RETURN_IF_ERROR(CheckParameterIsShared(in, i));
    return std::vector<int>{in[0].batch_axis};
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    const int64_t n = Elements(in[0]), period = Elements(ParameterShape(in[0]));
    c_ = {n, std::max<int64_t>(n / std::max<int64_t>(in[0][0] * period, 1), 1), period};
    return absl::OkStatus();
  }

  bool PullbackReadsInput(int ct_input, int input) const override {
    return ct_input != kScale && ct_input != kBias && (input == kScale || input == kVar);
  }
  bool PullbackReadsSaved(int ct_input) const override { return ct_input == kScale || ct_input == kVar; }
  int64_t SavedElements(const Backend&) const override { return c_.n; }
  int64_t ScratchElements(const Backend&) const override { return c_.n + 3 * (c_.period + 16); }

  void Forward(const ForwardArgs& args) const override {
    const Backend& backend = args.backend;
    ForEachParameterSet(args, args.x, [&](int64_t begin, int64_t lanes) {
      const Scratch::Frame frame(args.scratch);
      const Lanes r = InverseDeviation(args, begin), shift = Take(args);
      Multiply(backend, From(args.x[kMean], begin, backend), r, shift);
      backend.CopyStrided(1, {c_.period}, shift, {1}, shift, {1}, false, -1.0);
      const Lanes normal = LanesFrom(args.saved, begin, backend);
      backend.Affine(c_, lanes, From(args.x[kX], begin, backend), r, shift, normal);
      backend.Affine(c_, lanes, normal, From(args.x[kScale], begin, backend), From(args.x[kBias], begin, backend),
                     LanesFrom(args.y[0], begin, backend));
    });
  }

  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    const Backend& backend = args.backend;
    if (input != kX) {
      const bool along = input == kScale || input == kVar;
      backend.ChannelRows(c_, {args.lanes, 1}, args.ct_y[0], along ? args.saved : ConstLanes{}, ct_x, false);
      if (input == kScale || input == kBias) return;
    }
    ForEachParameterSet(args, args.x, [&](int64_t begin, int64_t lanes) {
      const Scratch::Frame frame(args.scratch);
      const Lanes r = InverseDeviation(args, begin), factor = Take(args), own = LanesFrom(ct_x, begin, backend);
      Multiply(backend, From(args.x[kScale], begin, backend), r, factor);
      if (input == kX) {
        backend.Affine(c_, lanes, From(args.ct_y[0], begin, backend), factor, {}, own);
        return;
      }
      if (input == kVar) Multiply(backend, factor, r, factor);
      backend.CopyStrided(1, {c_.period}, factor, {1}, factor, {1}, false, input == kVar ? -0.5 : -1.0);
      backend.Affine({c_.period, 1, c_.period}, lanes, own, factor, {}, own);
    });
  }

  void PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const override {
    if ((input != kScale && input != kBias) || !rows.contiguous()) {
      Op::PullbackToRows(input, terms, args, rows);
      return;
    }
    args.backend.ChannelRows(c_, terms, args.ct_y[0], input == kScale ? args.saved : ConstLanes{},
                             {rows.data, rows.row_stride}, rows.accumulate);
  }

  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    const Backend& backend = args.backend;
    const Lanes& y = tan_y[0];
    const auto moves = [&](int input) { return args.tan_x[input].data != nullptr; };
    backend.Fill(args.lanes, c_.n, 0.0, y);
    if (moves(kX) || moves(kMean) || moves(kVar)) {
      ForEachParameterSet(args, args.x, [&](int64_t begin, int64_t lanes) {
        const Scratch::Frame frame(args.scratch);
        const Lanes r = InverseDeviation(args, begin), factor = Take(args), own = LanesFrom(y, begin, backend);
        Multiply(backend, From(args.x[kScale], begin, backend), r, factor);
        if (moves(kX)) backend.Affine(c_, lanes, From(args.tan_x[kX], begin, backend), factor, {}, own);
        for (int64_t lane = begin; lane < begin + lanes; ++lane) PushStatistics(args, lane, r, factor, y);
      });
    }
    AddGainTangent(c_, args, args.saved, args.tan_x[kScale], y);
    if (moves(kBias)) backend.Affine(c_, args.lanes, y, {}, args.tan_x[kBias], y);
  }

 private:
  Shape ParameterShape(const Shape& x) const {
    if (!spatial_) return {x.begin() + 1, x.end()};
    return {x.size() > 1 ? x[1] : 1};
  }

  // visit(first lane, lanes) for lanes that share their parameters: all of them, or one by one.
  template <class Args, class Visit>
  static void ForEachParameterSet(const Args& args, const std::vector<ConstLanes>& x, Visit visit) {
    const bool shared = std::all_of(x.begin() + 1, x.end(), [](const ConstLanes& p) { return p.stride == 0; });
    const int64_t step = shared ? args.lanes : 1;
    for (int64_t begin = 0; begin < args.lanes; begin += step) visit(begin, step);
  }

  static Lanes LanesFrom(const Lanes& lanes, int64_t begin, const Backend& backend) {
    return {static_cast<std::byte*>(lanes.data) + begin * lanes.stride * backend.element_bytes(), lanes.stride};
  }

  // A buffer of one number per channel.
  template <class Args>
  Lanes Take(const Args& args) const {
    return {args.scratch.Take(c_.period * args.backend.element_bytes()), 0};
  }
  void Multiply(const Backend& backend, const ConstLanes& a, const ConstLanes& b, Lanes out) const {
    backend.Affine({c_.period, 1, c_.period}, 1, a, b, {}, out);
  }

  // r = 1 / sqrt(var + epsilon) of one lane.
  template <class Args>
  Lanes InverseDeviation(const Args& args, int64_t lane) const {
    const Lanes r = Take(args);
    const Backend& backend = args.backend;
    backend.Fill(1, c_.period, epsilon_, r);
    backend.CopyStrided(1, {c_.period}, From(args.x[kVar], lane, backend), {1}, r, {1}, true, 1.0);
    backend.Unary(UnaryFunction::kSqrt, {}, 1, c_.period, r, r);
    backend.Unary(UnaryFunction::kReciprocal, {}, 1, c_.period, r, r);
    return r;
  }

  // tan_y -= factor tan_mean + 1/2 factor r tan_var normal, with factor = scale r.
  void PushStatistics(const PushforwardArgs& args, int64_t lane, Lanes r, Lanes factor, Lanes tan_y) const {
    const Backend& backend = args.backend;
    const Lanes own = LanesFrom(tan_y, lane, backend);
    const Scratch::Frame frame(args.scratch);
    const Lanes step = Take(args);
    if (args.tan_x[kMean].data != nullptr) {
      Multiply(backend, factor, From(args.tan_x[kMean], lane, backend), step);
      backend.CopyStrided(1, {c_.period}, step, {1}, step, {1}, false, -1.0);
      backend.Affine(c_, 1, own, {}, step, own);
    }
    if (args.tan_x[kVar].data != nullptr) {
      Multiply(backend, factor, From(args.tan_x[kVar], lane, backend), step);
      Multiply(backend, step, r, step);
      const Lanes product{args.scratch.Take(c_.n * backend.element_bytes()), 0};
      backend.Affine(c_, 1, From(args.saved, lane, backend), step, {}, product);
      backend.CopyStrided(1, {c_.n}, product, {1}, own, {1}, true, -0.5);
    }
  }

  double epsilon_;
  bool spatial_;
  Channels c_;
};

// Statistics of the batch itself. Running statistics are not computed.
class BatchNormTraining : public Op {
 public:
  explicit BatchNormTraining(double epsilon) : epsilon_(epsilon) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1) || !in.has(2)) return absl::InvalidArgumentError("needs an input, a scale and a bias");
    const Shape& x = in[0].shape;
    if (x.size() < 2 || in[1].shape != Shape{x[1]} || in[2].shape != Shape{x[1]}) {
      return absl::InvalidArgumentError(absl::StrCat("scale and bias of shapes ", ShapeText(in[1].shape), " and ",
                                                     ShapeText(in[2].shape), " for an input of shape ", ShapeText(x)));
    }
    return std::vector<Facts>{{in[0].dtype, x}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    if (in[0].batch_axis >= 0) return MixesSamples("it normalises over the samples");
    for (size_t i = 1; i < 3; ++i) RETURN_IF_ERROR(CheckParameterIsShared(in, i));
    return std::vector<int>{-1};
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    images_ = in[0][0];
    size_ = Elements({in[0].begin() + 2, in[0].end()});
    c_ = {Elements(in[0]), std::max<int64_t>(images_ * size_, 1), in[0][1]};
    g_ = {in[0][1], images_ * size_, true, epsilon_};
    return absl::OkStatus();
  }
  bool DifferentiableIn(int input) const override { return input <= kBias; }
  bool PullbackReadsInput(int ct_input, int input) const override { return ct_input == kX && input == kScale; }
  bool PullbackReadsSaved(int ct_input) const override { return ct_input != kBias; }
  int64_t SavedElements(const Backend&) const override { return c_.n + c_.period; }
  int64_t ScratchElements(const Backend&) const override { return 2 * (c_.n + 16); }

  void Forward(const ForwardArgs& args) const override {
    const Backend& backend = args.backend;
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const Scratch::Frame frame(args.scratch);
      const Lanes own = Buffer(args), normal = At(args.saved, lane, backend), rstd = At(normal, 0, backend, c_.n);
      Gather(backend, From(args.x[kX], lane, backend), own);
      backend.Normalize(g_, 1, own, normal, rstd, {});
      backend.Affine(c_, 1, normal, From(args.x[kScale], lane, backend), From(args.x[kBias], lane, backend), own);
      Spread(backend, own, At(args.y[0], lane, backend));
    }
  }
  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    const Backend& backend = args.backend;
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const Scratch::Frame frame(args.scratch);
      const Lanes ct = Buffer(args), target = At(ct_x, lane, backend);
      Gather(backend, From(args.ct_y[0], lane, backend), ct);
      const ConstLanes normal = From(args.saved, lane, backend);
      if (input != kX) {
        backend.ChannelRows(c_, {1, 1}, ct, input == kScale ? normal : ConstLanes{}, target, false);
        continue;
      }
      const Lanes own = Buffer(args);
      backend.NormalizePullback(g_, c_, 1, normal, Rstd(normal, backend), From(args.x[kScale], lane, backend), ct, own);
      Spread(backend, own, target);
    }
  }
  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    const Backend& backend = args.backend;
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const Scratch::Frame frame(args.scratch);
      const Lanes own = Buffer(args), other = Buffer(args);
      const ConstLanes normal = From(args.saved, lane, backend);
      backend.Fill(1, c_.n, 0.0, own);
      if (args.tan_x[kX].data != nullptr) {
        Gather(backend, From(args.tan_x[kX], lane, backend), other);
        backend.NormalizePullback(g_, c_, 1, normal, Rstd(normal, backend), {}, other, own);
        backend.Affine(c_, 1, own, From(args.x[kScale], lane, backend), {}, own);
      }
      if (args.tan_x[kScale].data != nullptr) {
        backend.Affine(c_, 1, normal, From(args.tan_x[kScale], lane, backend), {}, other);
        backend.CopyStrided(1, {c_.n}, other, {1}, own, {1}, true, 1.0);
      }
      if (args.tan_x[kBias].data != nullptr) {
        backend.Affine(c_, 1, own, {}, From(args.tan_x[kBias], lane, backend), own);
      }
      Spread(backend, own, At(tan_y[0], lane, backend));
    }
  }

 private:
  template <class Args>
  Lanes Buffer(const Args& args) const {
    return {args.scratch.Take(c_.n * args.backend.element_bytes()), 0};
  }
  static Lanes At(const Lanes& lanes, int64_t lane, const Backend& backend, int64_t offset = 0) {
    return {static_cast<std::byte*>(lanes.data) + (lane * lanes.stride + offset) * backend.element_bytes(), 0};
  }
  ConstLanes Rstd(ConstLanes normal, const Backend& backend) const {
    normal.data = static_cast<const std::byte*>(normal.data) + c_.n * backend.element_bytes();
    return normal;
  }
  // [N, C, L] to [C, N, L], and back.
  void Gather(const Backend& backend, const ConstLanes& from, Lanes to) const {
    backend.CopyStrided(1, {g_.groups, images_, size_}, from, {size_, g_.groups * size_, 1}, to,
                        {images_ * size_, size_, 1}, false, 1.0);
  }
  void Spread(const Backend& backend, const ConstLanes& from, Lanes to) const {
    backend.CopyStrided(1, {images_, g_.groups, size_}, from, {size_, images_ * size_, 1}, to,
                        {g_.groups * size_, size_, 1}, false, 1.0);
  }

  double epsilon_;
  int64_t images_ = 1, size_ = 1;
  Channels c_;
  NormGroups g_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeBatchNormalization(const GraphNode& node, int opset) {
  ASSIGN_OR_RETURN(const double epsilon, FloatAttribute(node, "epsilon", 1e-5));
  ASSIGN_OR_RETURN(const int64_t training, IntAttribute(node, "training_mode", 0));
  ASSIGN_OR_RETURN(const int64_t spatial, IntAttribute(node, "spatial", 1));
  bool others = false;
  for (size_t k = 1; k < node.outputs.size(); ++k) others = others || !node.outputs[k].empty();
  if (others) return absl::UnimplementedError("a BatchNormalization whose running or saved statistics are outputs");
  if (opset >= 14 && training != 0) return std::make_unique<BatchNormTraining>(epsilon);
  return std::make_unique<BatchNorm>(epsilon, opset >= 9 || spatial != 0);
}

}  // namespace jacserve::worker
