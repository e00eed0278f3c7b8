// Concat, Slice and Gather by constant indices: y is put together from parts of its inputs; the pullback sends each
// part's cotangent back to where it came from. On constants (the arithmetic of shapes) they are folded.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

// y[p . y_strides + y_offset] = x[input][p . x_strides + x_offset] for p in shape.
struct Part {
  int input = 0;
  Shape shape, x_strides, y_strides;
  int64_t x_offset = 0, y_offset = 0;
};

class PartsOp : public Op {
 public:
  // The parts of y, from shapes of inputs and output.
  virtual std::vector<Part> Parts(const InputFacts& facts, const std::vector<Shape>& in, const Shape& out) const = 0;

  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    parts_ = Parts(facts, in, out[0]);
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    for (size_t i = 0; i < in.size(); ++i) {
      if (in.has(i) && in[i].constant == nullptr) return std::nullopt;
    }
    ASSIGN_OR_RETURN(const std::vector<Facts> out, InferShapes(in));
    std::vector<Shape> shapes;
    for (const Facts& facts : in.facts) shapes.push_back(facts.shape);
    const DType dtype = in[0].constant->dtype;  // of known floats it is not that of Facts
    ASSIGN_OR_RETURN(const int64_t size_bytes, ByteCount(out[0].shape, dtype));
    auto bytes = std::make_shared<std::vector<std::byte>>(size_bytes);
    const int64_t element_bytes = SizeOf(dtype);
    for (const Part& part : Parts(in, shapes, out[0].shape)) {
      const std::byte* x = in[part.input].constant->bytes->data();
      const Shape steps = RowMajorStrides(part.shape);
      for (int64_t p = 0; p < Elements(part.shape); ++p) {
        int64_t from = part.x_offset, to = part.y_offset, rest = p;
        for (size_t axis = 0; axis < part.shape.size(); ++axis) {
          from += rest / steps[axis] * part.x_strides[axis];
          to += rest / steps[axis] * part.y_strides[axis];
          rest %= steps[axis];
        }
        std::memcpy(bytes->data() + to * element_bytes, x + from * element_bytes, element_bytes);
      }
    }
    return std::vector<HostTensor>{{dtype, out[0].shape, std::move(bytes)}};
  }
  bool PullbackReadsInput(int, int) const override { return false; }

  void Forward(const ForwardArgs& args) const override {
    for (const Part& part : parts_) {
      args.backend.CopyStrided(args.lanes, part.shape, At(args.x[part.input], part.x_offset, args.backend),
                               part.x_strides, At(args.y[0], part.y_offset, args.backend), part.y_strides, false, 1.0);
    }
  }
  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.Fill(args.lanes, Elements(in_[input]), 0.0, ct_x);
    for (const Part& part : parts_) {
      if (part.input != input) continue;
      args.backend.CopyStrided(args.lanes, part.shape, At(args.ct_y[0], part.y_offset, args.backend), part.y_strides,
                               At(ct_x, part.x_offset, args.backend), part.x_strides, true, 1.0);
    }
  }

 private:
  template <class L>
  static L At(L lanes, int64_t offset, const Backend& backend) {
    using Byte = std::conditional_t<std::is_same_v<L, Lanes>, std::byte, const std::byte>;
    lanes.data = static_cast<Byte*>(lanes.data) + offset * backend.element_bytes();
    return lanes;
  }
  std::vector<Part> parts_;
};

class Concat : public PartsOp {
 public:
  explicit Concat(int64_t axis) : axis_(axis) {}
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    Facts y{in[0].dtype, in[0].shape};
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, y.shape.size()));
    for (size_t i = 1; i < in.size(); ++i) {
      Shape same = in[i].shape;
      if (same.size() == y.shape.size()) same[axis] = y.shape[axis];
      if (same != y.shape || in[i].dtype != y.dtype) {
        return absl::InvalidArgumentError(absl::StrCat("shapes ", ShapeText(in[0].shape), " and ",
                                                       ShapeText(in[i].shape), " do not join along axis ", axis));
      }
      y.shape[axis] += in[i].shape[axis];
    }
    return std::vector<Facts>{std::move(y)};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, out[0].shape.size()));
    for (const Facts& facts : in.facts) {
      if (facts.batch_axis == axis) return MixesSamples("it joins values along the samples");
      if (facts.batch_axis != in[0].batch_axis) return MixesSamples("not all of its inputs hold one slice per sample");
    }
    return std::vector<int>{in[0].batch_axis};
  }
  std::vector<Part> Parts(const InputFacts&, const std::vector<Shape>& in, const Shape& out) const override {
    const int64_t axis = axis_ < 0 ? axis_ + static_cast<int64_t>(out.size()) : axis_;
    std::vector<Part> parts;
    int64_t begin = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const Shape y_strides = RowMajorStrides(out);
      parts.push_back({static_cast<int>(i), in[i], RowMajorStrides(in[i]), y_strides, 0, begin * y_strides[axis]});
      begin += in[i][axis];
    }
    return parts;
  }

 private:
  int64_t axis_;
};

// y[q] = x[start + q step] along each axis that is named.
class Slice : public PartsOp {
 public:
  struct Lists {
    std::vector<int64_t> starts, ends, axes;
  };
  explicit Slice(std::optional<Lists> lists) : lists_(std::move(lists)) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const std::vector<Range> ranges, Ranges(in));
    Facts y{in[0].dtype, {}};
    for (const Range& range : ranges) y.shape.push_back(range.count);
    return std::vector<Facts>{std::move(y)};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    const int axis = in[0].batch_axis;
    ASSIGN_OR_RETURN(const std::vector<Range> ranges, Ranges(in));
    if (axis >= 0 && (out[0].shape[axis] != in[0].shape[axis] || ranges[axis].step != 1)) {
      return MixesSamples("it picks or reorders samples");
    }
    return std::vector<int>{axis};
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  std::vector<Part> Parts(const InputFacts& facts, const std::vector<Shape>& in, const Shape& out) const override {
    const std::vector<Range> ranges = *Ranges(facts);  // was checked when shapes were inferred
    Part part{0, out, RowMajorStrides(in[0]), RowMajorStrides(out)};
    for (size_t axis = 0; axis < out.size(); ++axis) {
      part.x_offset += ranges[axis].start * part.x_strides[axis];
      part.x_strides[axis] *= ranges[axis].step;
    }
    return {part};
  }

 private:
  struct Range {
    int64_t start = 0, step = 1, count = 0;
  };
  absl::StatusOr<std::vector<Range>> Ranges(const InputFacts& in) const {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    const Shape& shape = in[0].shape;
    Lists lists = lists_.value_or(Lists{});
    std::vector<int64_t> steps;
    if (!lists_) {
      ASSIGN_OR_RETURN(lists.starts, ConstantInts(in, 1, "where to start"));
      ASSIGN_OR_RETURN(lists.ends, ConstantInts(in, 2, "where to end"));
      if (in.has(3)) {
        ASSIGN_OR_RETURN(lists.axes, ConstantInts(in, 3, "the axes to slice"));
      }
      if (in.has(4)) {
        ASSIGN_OR_RETURN(steps, ConstantInts(in, 4, "the steps"));
      }
    }
    const size_t n = lists.starts.size();
    if (lists.ends.size() != n || (!lists.axes.empty() && lists.axes.size() != n) ||
        (!steps.empty() && steps.size() != n) || n > shape.size()) {
      return absl::InvalidArgumentError("starts, ends, axes and steps do not fit each other or the input");
    }
    std::vector<Range> ranges;
    for (int64_t size : shape) ranges.push_back({0, 1, size});
    for (size_t k = 0; k < n; ++k) {
      ASSIGN_OR_RETURN(const int64_t axis,
                       NormalAxis(lists.axes.empty() ? static_cast<int64_t>(k) : lists.axes[k], shape.size()));
      const int64_t size = shape[axis], step = steps.empty() ? 1 : steps[k];
      if (step == 0 || step == INT64_MIN) return absl::InvalidArgumentError("a step of 0");
      const auto place = [&](int64_t at, int64_t low, int64_t high) {
        return std::clamp(at < 0 ? (at < -size ? low : at + size) : at, low, high);
      };
      const int64_t start = place(lists.starts[k], 0, step > 0 ? size : size - 1);
      const int64_t end = place(lists.ends[k], step > 0 ? 0 : -1, step > 0 ? size : size - 1);
      const int64_t span = step > 0 ? end - start : start - end, stride = step > 0 ? step : -step;
      ranges[axis] = {start, step, span <= 0 ? 0 : (span - 1) / stride + 1};
    }
    return ranges;
  }
  std::optional<Lists> lists_;
};

// y = x at constant indices along one axis.
class Gather : public PartsOp {
 public:
  explicit Gather(int64_t axis) : axis_(axis) {}
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ConstantInts(in, 1, "the indices to gather"));
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, in[0].shape.size()));
    for (int64_t index : indices) RETURN_IF_ERROR(NormalAxis(index, in[0].shape[axis]).status());
    Shape shape(in[0].shape.begin(), in[0].shape.begin() + axis);
    shape.insert(shape.end(), in[1].shape.begin(), in[1].shape.end());
    shape.insert(shape.end(), in[0].shape.begin() + axis + 1, in[0].shape.end());
    return std::vector<Facts>{{in[0].dtype, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, in[0].shape.size()));
    if (in[0].batch_axis == axis) return MixesSamples("it picks some of the samples");
    const int shift = in[0].batch_axis > axis ? static_cast<int>(in[1].shape.size()) - 1 : 0;
    return std::vector<int>{in[0].batch_axis + shift};
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  std::vector<Part> Parts(const InputFacts& facts, const std::vector<Shape>& in, const Shape&) const override {
    const Shape& x = in[0];
    const int64_t axis = axis_ < 0 ? axis_ + static_cast<int64_t>(x.size()) : axis_;
    const std::vector<int64_t> indices = IntsOf(*facts[1].constant);
    const auto n = static_cast<int64_t>(indices.size());
    const int64_t outer = Elements({x.begin(), x.begin() + axis}), inner = Elements({x.begin() + axis + 1, x.end()});
    std::vector<Part> parts;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t index = indices[k] < 0 ? indices[k] + x[axis] : indices[k];
      parts.push_back({0, {outer, inner}, {x[axis] * inner, 1}, {n * inner, 1}, index * inner, k * inner});
    }
    return parts;
  }

 private:
  int64_t axis_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeConcat(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", 1));
  return std::make_unique<Concat>(axis);
}

absl::StatusOr<std::unique_ptr<Op>> MakeSlice(const GraphNode& node, int opset) {
  if (opset >= 10) return std::make_unique<Slice>(std::nullopt);
  Slice::Lists lists;
  ASSIGN_OR_RETURN(lists.starts, IntsAttribute(node, "starts", {}));
  ASSIGN_OR_RETURN(lists.ends, IntsAttribute(node, "ends", {}));
  ASSIGN_OR_RETURN(lists.axes, IntsAttribute(node, "axes", {}));
  return std::make_unique<Slice>(std::move(lists));
}

absl::StatusOr<std::unique_ptr<Op>> MakeGather(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", 0));
  return std::make_unique<Gather>(axis);
}

}  // namespace jacserve::worker
