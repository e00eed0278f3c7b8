// Gather, GatherElements and GatherND: y = the elements of x at the places that indices name; ct_x = ct_y added up
// there. Indices may be known beforehand or only with the numbers. Then one that is out of range, which nobody could
// refuse in time, makes its elements of y NaN, and all of a derivative of that sample: nobody takes it for zero.
#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/indices.h"
#include "worker/ops/lanes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class GatherOp : public Op {
 public:
  // Places in x [shapes of one sample, or of the whole of a constant].
  virtual IndexGeometry Places(const Shape& x, const Shape& index) const = 0;

  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    places_ = Places(in[0], in[1]);
    return absl::OkStatus();
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  bool PullbackReadsInput(int, int input) const override { return input == 1; }
  bool HasPushforward() const override { return true; }

  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    if (in[0].constant == nullptr || in[1].constant == nullptr) return std::nullopt;
    ASSIGN_OR_RETURN(const std::vector<Facts> out, InferShapes(in));
    const IndexGeometry g = Places(in[0].shape, in[1].shape);
    const std::vector<int64_t> index = IntsOf(*in[1].constant);
    const DType dtype = in[0].constant->dtype;  // of known floats it is not that of Facts
    const int64_t element_bytes = SizeOf(dtype);
    ASSIGN_OR_RETURN(const int64_t size_bytes, ByteCount(out[0].shape, dtype));
    auto bytes = std::make_shared<std::vector<std::byte>>(size_bytes);
    const Shape steps = RowMajorStrides(g.points);
    for (int64_t p = 0; p < Elements(g.points); ++p) {
      int64_t at = 0, where = 0, rest = p;
      for (size_t axis = 0; axis < g.points.size(); ++axis) {
        at += rest / steps[axis] * g.base_strides[axis];
        where += rest / steps[axis] * g.index_strides[axis];
        rest %= steps[axis];
      }
      for (size_t k = 0; k < g.sizes.size(); ++k) {
        const int64_t i = index[where + static_cast<int64_t>(k) * g.component_stride];
        at += (i < 0 ? i + g.sizes[k] : i) * g.strides[k];
      }
      std::memcpy(bytes->data() + p * g.block * element_bytes, in[0].constant->bytes->data() + at * element_bytes,
                  g.block * element_bytes);
    }
    return std::vector<HostTensor>{{dtype, out[0].shape, std::move(bytes)}};
  }

  void Forward(const ForwardArgs& args) const override {
    args.backend.TakeIndexed(places_, args.lanes, args.x[0], args.x[1], std::numeric_limits<double>::quiet_NaN(),
                             args.y[0]);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.Fill(args.lanes, Elements(in_[0]), 0.0, ct_x);
    args.backend.PutIndexed(places_, args.lanes, args.x[1], args.ct_y[0], true, Elements(in_[0]), ct_x);
  }
  // Of a table that is shared only the elements that were taken are touched, in rows that are otherwise zero.
  void PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const override {
    if (!rows.contiguous()) return Op::PullbackToRows(input, terms, args, rows);
    const Lanes sink{rows.data, rows.row_stride};
    if (!rows.accumulate) args.backend.Fill(terms.rows, Elements(in_[0]), 0.0, sink);
    for (int64_t lane = 0; lane < terms.lanes(); ++lane) {
      args.backend.PutIndexed(places_, 1, From(args.x[1], lane, args.backend), From(args.ct_y[0], lane, args.backend),
                              true, Elements(in_[0]), At(sink, lane / terms.per_row * rows.row_stride, args.backend));
    }
  }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    args.backend.TakeIndexed(places_, args.lanes, args.tan_x[0], args.x[1], std::numeric_limits<double>::quiet_NaN(),
                             tan_y[0]);
    PoisonUnplaced(places_, args.backend, args.lanes, args.x[1], Elements(out_[0]), tan_y[0]);
  }

 protected:
  // InvalidArgument: no integers, or some that are known to be out of range.
  absl::Status CheckIndices(const InputFacts& in, const Shape& sizes) const {
    if (IsFloat(in[1].dtype)) return absl::InvalidArgumentError("its indices are not integers");
    return CheckKnownIndices(in, sizes);
  }

 private:
  IndexGeometry places_;
};

// y[o, p, i] = x[o, index[p], i].
class Gather : public GatherOp {
 public:
  explicit Gather(int64_t axis) : axis_(axis) {}
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1)) return absl::InvalidArgumentError("needs two inputs");
    const Shape& x = in[0].shape;
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, x.size()));
    RETURN_IF_ERROR(CheckIndices(in, {x[axis]}));
    Shape shape(x.begin(), x.begin() + axis);
    shape.insert(shape.end(), in[1].shape.begin(), in[1].shape.end());
    shape.insert(shape.end(), x.begin() + axis + 1, x.end());
    return std::vector<Facts>{{in[0].dtype, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, in[0].shape.size()));
    if (in[0].batch_axis == axis) return MixesSamples("it picks some of the samples");
    if (in[0].batch_axis >= 0 && in[1].batch_axis >= 0) return MixesSamples("it picks from every sample for every");
    if (in[1].batch_axis >= 0) return std::vector<int>{static_cast<int>(axis) + in[1].batch_axis};
    const int shift = in[0].batch_axis > axis ? static_cast<int>(in[1].shape.size()) - 1 : 0;
    return std::vector<int>{in[0].batch_axis + shift};
  }
  IndexGeometry Places(const Shape& x, const Shape& index) const override {
    const int64_t axis = *NormalAxis(axis_, x.size());
    const int64_t outer = Elements({x.begin(), x.begin() + axis}), inner = Elements({x.begin() + axis + 1, x.end()});
    return {.points = {outer, Elements(index)},
            .base_strides = {x[axis] * inner, 0},
            .index_strides = {0, 1},
            .sizes = {x[axis]},
            .strides = {inner},
            .block = inner};
  }

 private:
  int64_t axis_;
};

// y[q] = x[q with q_axis = index[q]].
class GatherElements : public GatherOp {
 public:
  explicit GatherElements(int64_t axis) : axis_(axis) {}
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1)) return absl::InvalidArgumentError("needs two inputs");
    const Shape &x = in[0].shape, &index = in[1].shape;
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, x.size()));
    bool fits = x.size() == index.size();
    for (size_t k = 0; fits && k < x.size(); ++k) fits = static_cast<int64_t>(k) == axis || index[k] <= x[k];
    if (!fits) {
      return absl::InvalidArgumentError(
          absl::StrCat("indices of shape ", ShapeText(index), " do not fit ", ShapeText(x), " along axis ", axis));
    }
    RETURN_IF_ERROR(CheckIndices(in, {x[axis]}));
    return std::vector<Facts>{{in[0].dtype, index}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, in[0].shape.size()));
    const int batch_axis = std::max(in[0].batch_axis, in[1].batch_axis);
    if (batch_axis < 0) return std::vector<int>{-1};
    if (batch_axis == axis) return MixesSamples("it picks from the samples");
    for (size_t i = 0; i < 2; ++i) {
      const bool same = in[i].batch_axis == batch_axis || (in[i].batch_axis < 0 && in[i].shape[batch_axis] == 1);
      if (!same || in[0].shape[batch_axis] != in[1].shape[batch_axis]) {
        return MixesSamples("values and indices hold the samples along different axes");
      }
    }
    return std::vector<int>{batch_axis};
  }
  IndexGeometry Places(const Shape& x, const Shape& index) const override {
    return ElementPlaces(x, index, *NormalAxis(axis_, x.size()));
  }

 private:
  int64_t axis_;
};

// y[b, p, i] = x[b, index[b, p, 0], .., index[b, p, K - 1], i].
class GatherND : public GatherOp {
 public:
  explicit GatherND(int64_t batch_dims) : batch_dims_(batch_dims) {}
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1)) return absl::InvalidArgumentError("needs two inputs");
    const Shape &x = in[0].shape, &index = in[1].shape;
    const auto rank = static_cast<int64_t>(x.size()), index_rank = static_cast<int64_t>(index.size());
    const int64_t b = batch_dims_, components = index.empty() ? 0 : index.back();
    if (b < 0 || index_rank < 1 || b >= index_rank || components < 1 || b + components > rank ||
        !std::equal(x.begin(), x.begin() + b, index.begin())) {
      return absl::InvalidArgumentError(absl::StrCat("indices of shape ", ShapeText(index), " do not fit ",
                                                     ShapeText(x), " with ", b, " batch axes"));
    }
    RETURN_IF_ERROR(CheckIndices(in, {x.begin() + b, x.begin() + b + components}));
    Shape shape(index.begin(), index.end() - 1);
    shape.insert(shape.end(), x.begin() + b + components, x.end());
    return std::vector<Facts>{{in[0].dtype, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    const int x = in[0].batch_axis, index = in[1].batch_axis, b = static_cast<int>(batch_dims_);
    const int last = static_cast<int>(in[1].shape.size()) - 1, components = static_cast<int>(in[1].shape.back());
    if (index == last || (x >= b && x < b + components)) return MixesSamples("it picks from the samples");
    const bool aligned = x == index && x < b;
    if (x >= 0 && index >= 0 && !aligned) return MixesSamples("it picks from every sample for every");
    const int batched = std::max(x, index);  // where one of them is shared, its slice must be every sample's
    const bool in_common = (x >= 0 && x < b) || (index >= 0 && index < b);
    if (in_common && !aligned && in[x < 0 ? 0 : 1].shape[batched] != 1) {
      return MixesSamples("one input has another slice for every sample");
    }
    return std::vector<int>{x >= b + components ? x - b - components + last : batched};
  }
  IndexGeometry Places(const Shape& x, const Shape& index) const override { return TuplePlaces(x, index, batch_dims_); }

 private:
  int64_t batch_dims_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeGather(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", 0));
  return std::make_unique<Gather>(axis);
}
absl::StatusOr<std::unique_ptr<Op>> MakeGatherElements(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", 0));
  return std::make_unique<GatherElements>(axis);
}
absl::StatusOr<std::unique_ptr<Op>> MakeGatherND(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t batch_dims, IntAttribute(node, "batch_dims", 0));
  return std::make_unique<GatherND>(batch_dims);
}

}  // namespace jacserve::worker
