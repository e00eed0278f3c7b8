// OneHot: y = values[1] where the depth axis equals the index, values[0] elsewhere; negative indices count from the
// end, one out of range has no such place. ct_values = the sums of ct_y over the two kinds of places.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/lanes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class OneHot : public Op {
 public:
  explicit OneHot(int64_t axis) : axis_(axis) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1) || !in.has(2)) return absl::InvalidArgumentError("needs three inputs");
    ASSIGN_OR_RETURN(const std::vector<double> depth, KnownNumbers(in, 1, "the depth"));
    if (depth.size() != 1 || !(depth[0] >= 0 && depth[0] <= 1e15)) {
      return absl::InvalidArgumentError("the depth is not one number");
    }
    if (in[2].shape != Shape{2}) return absl::InvalidArgumentError("the values are not two numbers");
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, in[0].shape.size() + 1));
    Shape shape = in[0].shape;
    shape.insert(shape.begin() + axis, static_cast<int64_t>(depth[0]));
    return std::vector<Facts>{{in[2].dtype, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, in[0].shape.size() + 1));
    const int batch_axis = in[0].batch_axis;
    return std::vector<int>{batch_axis < axis ? batch_axis : batch_axis + 1};
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, out[0].size()));
    Shape strides = RowMajorStrides(out[0]);
    places_ = {
        .points = in[0], .index_strides = RowMajorStrides(in[0]), .sizes = {out[0][axis]}, .strides = {strides[axis]}};
    strides.erase(strides.begin() + axis);
    places_.base_strides = std::move(strides);
    return absl::OkStatus();
  }
  bool DifferentiableIn(int input) const override { return input == 2; }
  bool PullbackReadsInput(int, int input) const override { return input == 0; }
  int64_t ScratchElements(const Backend&) const override { return Elements(in_[0]) + Elements(out_[0]) + 32; }
  bool HasPushforward() const override { return true; }

  void Forward(const ForwardArgs& args) const override {
    Place(args.lanes, args.x[0], args.x[2], args.y[0], args.backend, args.scratch);
  }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    Place(args.lanes, args.x[0], args.tan_x[2], tan_y[0], args.backend, args.scratch);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    const Backend& backend = args.backend;
    const int64_t n = Elements(out_[0]), ones = Elements(in_[0]);
    const Scratch::Frame frame(args.scratch);
    const Lanes on{args.scratch.Take(ones * backend.element_bytes()), 0};
    const Lanes off{args.scratch.Take(n * backend.element_bytes()), 0};
    backend.Fill(args.lanes, 2, 0.0, ct_x);
    for (int64_t lane = 0; lane < args.lanes; ++lane) {
      const ConstLanes index = From(args.x[0], lane, backend), ct_y = From(args.ct_y[0], lane, backend);
      const Lanes ct = At(ct_x, lane * ct_x.stride, backend);
      backend.TakeIndexed(places_, 1, ct_y, index, 0.0, on);
      backend.CopyStrided(1, {ones}, on, {1}, At(ct, 1, backend), {0}, true, 1.0);
      backend.CopyStrided(1, {n}, ct_y, {1}, off, {1}, false, 1.0);
      backend.Fill(1, ones, 0.0, on);
      backend.PutIndexed(places_, 1, index, on, false, 0, off);
      backend.CopyStrided(1, {n}, off, {1}, ct, {0}, true, 1.0);
    }
  }

 private:
  void Place(int64_t lanes, ConstLanes index, ConstLanes values, Lanes y, const Backend& backend,
             Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    const int64_t ones = Elements(in_[0]);
    const Lanes on{scratch.Take(ones * backend.element_bytes()), 0};
    backend.CopyStrided(lanes, {Elements(out_[0])}, values, {0}, y, {1}, false, 1.0);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const ConstLanes one = At(From(values, lane, backend), 1, backend);
      backend.CopyStrided(1, {ones}, one, {0}, on, {1}, false, 1.0);
      backend.PutIndexed(places_, 1, From(index, lane, backend), on, false, 0, At(y, lane * y.stride, backend));
    }
  }

  int64_t axis_;
  IndexGeometry places_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeOneHot(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", -1));
  return std::make_unique<OneHot>(axis);
}

}  // namespace jacserve::worker
