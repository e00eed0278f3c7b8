// ScatterElements and ScatterND: y = x with updates written to (or added at) the places that indices name.
// Written: ct_x = ct_y, 0 at those places. Added: ct_x = ct_y. ct_updates = ct_y at those places. Written twice, a
// place keeps the last update, which ONNX leaves open: that one alone takes the cotangent. An index out of range that
// shows itself only with the numbers makes all of y NaN, and all of a derivative of that sample.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/indices.h"
#include "worker/ops/lanes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class ScatterOp : public Op {
 public:
  explicit ScatterOp(bool add) : add_(add) {}
  virtual absl::Status CheckShapes(const InputFacts& in) const = 0;
  virtual IndexGeometry Places(const Shape& x, const Shape& index) const = 0;

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1) || !in.has(2)) return absl::InvalidArgumentError("needs three inputs");
    if (IsFloat(in[1].dtype)) return absl::InvalidArgumentError("its indices are not integers");
    if (IsFloat(in[0].dtype) != IsFloat(in[2].dtype)) {
      return absl::InvalidArgumentError("values and updates have different types");
    }
    RETURN_IF_ERROR(CheckShapes(in));
    RETURN_IF_ERROR(CheckKnownIndices(in, Places(in[0].shape, in[1].shape).sizes));
    return std::vector<Facts>{{in[0].dtype, in[0].shape}};
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    places_ = Places(in[0], in[1]);
    if (!add_ && Elements(places_.points) > kMostNumbered) {
      return absl::UnimplementedError(absl::StrCat("more than ", kMostNumbered, " updates"));
    }
    return absl::OkStatus();
  }
  bool DifferentiableIn(int input) const override { return input != 1; }
  bool PullbackReadsInput(int, int input) const override { return input == 1; }
  int64_t ScratchElements(const Backend&) const override { return 2 * Elements(in_[2]) + Elements(out_[0]) + 48; }
  bool HasPushforward() const override { return true; }

  void Forward(const ForwardArgs& args) const override {
    Copy(args.lanes, args.x[0], args.y[0], args.backend);
    args.backend.PutIndexed(places_, args.lanes, args.x[1], args.x[2], add_, Elements(out_[0]), args.y[0]);
  }
  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    if (input == 2) {
      args.backend.TakeIndexed(places_, args.lanes, args.ct_y[0], args.x[1], 0.0, ct_x);
      if (!add_) KeepLast(args, ct_x);
    } else {
      Copy(args.lanes, args.ct_y[0], ct_x, args.backend);
      if (!add_) Clear(args.lanes, args.x[1], ct_x, args.backend, args.scratch);
    }
    PoisonUnplaced(places_, args.backend, args.lanes, args.x[1], Elements(in_[input]), ct_x);
  }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    if (args.tan_x[0].data != nullptr) {
      Copy(args.lanes, args.tan_x[0], tan_y[0], args.backend);
    } else {
      args.backend.Fill(args.lanes, Elements(out_[0]), 0.0, tan_y[0]);
    }
    if (args.tan_x[2].data != nullptr) {
      args.backend.PutIndexed(places_, args.lanes, args.x[1], args.tan_x[2], add_, 0, tan_y[0]);
    } else if (!add_ && args.tan_x[0].data != nullptr) {
      Clear(args.lanes, args.x[1], tan_y[0], args.backend, args.scratch);
    }
    PoisonUnplaced(places_, args.backend, args.lanes, args.x[1], Elements(out_[0]), tan_y[0]);
  }

 private:
  static constexpr int64_t kMostNumbered = int64_t{1} << 24;  // float32 counts no further

  void Copy(int64_t lanes, ConstLanes from, Lanes to, const Backend& backend) const {
    backend.CopyStrided(lanes, {Elements(out_[0])}, from, {1}, to, {1}, false, 1.0);
  }
  void Clear(int64_t lanes, ConstLanes index, Lanes x, const Backend& backend, Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    const int64_t n = Elements(in_[2]);
    const Lanes zeros{scratch.Take(n * backend.element_bytes()), 0};
    backend.Fill(1, n, 0.0, zeros);
    backend.PutIndexed(places_, lanes, index, zeros, false, 0, x);
  }
  // Makes those of ct_updates 0 that others were written over: the updates' own numbers, written in the same way, show
  // whose stayed.
  void KeepLast(const PullbackArgs& args, Lanes ct_updates) const {
    const Backend& backend = args.backend;
    const Scratch::Frame frame(args.scratch);
    const int64_t n = Elements(in_[2]), points = Elements(places_.points), bytes = backend.element_bytes();
    const Lanes number{args.scratch.Take(n * bytes), 0}, last{args.scratch.Take(n * bytes), 0};
    const Lanes places{args.scratch.Take(Elements(out_[0]) * bytes), 0};
    backend.Fill(1, points, 1.0, number);
    backend.Scan(false, false, false, 1, 1, points, 1, number, last);  // 1, 2, ..
    backend.CopyStrided(1, {points, places_.block}, last, {1, 0}, number, {places_.block, 1}, false, 1.0);
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const ConstLanes index = From(args.x[1], lane, backend);
      backend.PutIndexed(places_, 1, index, number, false, 0, places);
      backend.TakeIndexed(places_, 1, places, index, 0.0, last);
      backend.Binary(BinaryFunction::kEqual, 1, {n}, last, {1}, number, {1}, last);
      const Lanes ct = At(ct_updates, lane * ct_updates.stride, backend);
      backend.Binary(BinaryFunction::kIfTrue, 1, {n}, last, {1}, ct, {1}, ct);
    }
  }

  bool add_;
  IndexGeometry places_;
};

// y[q with q_axis = index[q]] = updates[q].
class ScatterElements : public ScatterOp {
 public:
  ScatterElements(int64_t axis, bool add) : ScatterOp(add), axis_(axis) {}
  absl::Status CheckShapes(const InputFacts& in) const override {
    const Shape &x = in[0].shape, &index = in[1].shape;
    RETURN_IF_ERROR(NormalAxis(axis_, x.size()).status());
    bool fits = x.size() == index.size() && index == in[2].shape;
    for (size_t k = 0; fits && k < x.size(); ++k) fits = index[k] <= x[k] || static_cast<int64_t>(k) == Axis(x);
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("indices of shape ", ShapeText(index), " and updates of shape ",
                                                   ShapeText(in[2].shape), " do not fit ", ShapeText(x)));
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    const int batch_axis = std::max({in[0].batch_axis, in[1].batch_axis, in[2].batch_axis});
    if (batch_axis < 0) return std::vector<int>{-1};
    if (batch_axis == Axis(in[0].shape)) return MixesSamples("it writes to other samples");
    for (const Facts& facts : in.facts) {
      const bool same = facts.batch_axis == batch_axis || (facts.batch_axis < 0 && facts.shape[batch_axis] == 1);
      if (!same || facts.shape[batch_axis] != in[0].shape[batch_axis]) {
        return MixesSamples("not all of its inputs hold one slice per sample");
      }
    }
    return std::vector<int>{batch_axis};
  }
  IndexGeometry Places(const Shape& x, const Shape& index) const override { return ElementPlaces(x, index, Axis(x)); }

 private:
  int64_t Axis(const Shape& x) const { return *NormalAxis(axis_, x.size()); }
  int64_t axis_;
};

// y[index[p, 0], .., index[p, K - 1], i] = updates[p, i].
class ScatterND : public ScatterOp {
 public:
  using ScatterOp::ScatterOp;
  absl::Status CheckShapes(const InputFacts& in) const override {
    const Shape &x = in[0].shape, &index = in[1].shape;
    const int64_t components = index.empty() ? 0 : index.back();
    bool fits = components >= 1 && components <= static_cast<int64_t>(x.size());
    if (fits) {
      Shape updates(index.begin(), index.end() - 1);
      updates.insert(updates.end(), x.begin() + components, x.end());
      fits = updates == in[2].shape;
    }
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("indices of shape ", ShapeText(index), " and updates of shape ",
                                                   ShapeText(in[2].shape), " do not fit ", ShapeText(x)));
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    const int components = static_cast<int>(in[1].shape.back()), last = static_cast<int>(in[1].shape.size()) - 1;
    const int x = in[0].batch_axis, updates = in[2].batch_axis;
    if (in[1].batch_axis >= 0 || (x >= 0 && x < components) || (updates >= 0 && updates < last)) {
      return MixesSamples("it writes to other samples");
    }
    const int axis = x >= 0 ? x : (updates >= 0 ? updates - last + components : -1);
    if (axis < 0) return std::vector<int>{-1};
    const bool x_same = x == axis || in[0].shape[axis] == 1;
    const bool updates_same =
        updates >= 0 ? updates - last + components == axis : in[2].shape[axis - components + last] == 1;
    if (!x_same || !updates_same) return MixesSamples("not all of its inputs hold one slice per sample");
    return std::vector<int>{axis};
  }
  IndexGeometry Places(const Shape& x, const Shape& index) const override { return TuplePlaces(x, index, 0); }
};

absl::StatusOr<bool> Adds(const GraphNode& node) {
  ASSIGN_OR_RETURN(const std::string reduction, StringAttribute(node, "reduction", "none"));
  if (reduction == "none" || reduction == "add") return reduction == "add";
  return absl::UnimplementedError(absl::StrCat("the reduction ", reduction));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeScatterElements(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", 0));
  ASSIGN_OR_RETURN(const bool add, Adds(node));
  return std::make_unique<ScatterElements>(axis, add);
}
// What ScatterElements was called before opset 11.
absl::StatusOr<std::unique_ptr<Op>> MakeScatter(const GraphNode& node, int opset) {
  return MakeScatterElements(node, opset);
}
absl::StatusOr<std::unique_ptr<Op>> MakeScatterND(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const bool add, Adds(node));
  return std::make_unique<ScatterND>(add);
}

}  // namespace jacserve::worker
