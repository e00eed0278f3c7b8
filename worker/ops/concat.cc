// Concat: y is its inputs one after the other along an axis. Split: its outputs are the parts of x along an axis.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"
#include "worker/ops/parts.h"

namespace jacserve::worker {
namespace {

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
    int result = -1;
    for (const Facts& facts : in.facts) {
      if (facts.batch_axis < 0) continue;
      if (facts.batch_axis == axis) return MixesSamples("it joins values along the samples");
      if (result >= 0 && facts.batch_axis != result)
        return MixesSamples("its inputs hold samples along different axes");
      result = facts.batch_axis;
    }
    // In a graph of one sample, a shared input is that sample's slice, and every other's too.
    for (const Facts& facts : in.facts) {
      if (result >= 0 && facts.batch_axis < 0 && in.batch > 1) {
        return MixesSamples("one input has another slice for every sample");
      }
    }
    return std::vector<int>{result};
  }
  std::vector<Part> Parts(const InputFacts&, const std::vector<Shape>& in,
                          const std::vector<Shape>& out) const override {
    const int64_t axis = *NormalAxis(axis_, out[0].size());
    const Shape y_strides = RowMajorStrides(out[0]);
    std::vector<Part> parts;
    int64_t begin = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      parts.push_back({static_cast<int>(i), in[i], RowMajorStrides(in[i]), y_strides, 0, begin * y_strides[axis]});
      begin += in[i][axis];
    }
    return parts;
  }

 private:
  int64_t axis_;
};

class Split : public PartsOp {
 public:
  // `sizes`: by attribute. `even`: the last output may be smaller than the others.
  Split(int64_t axis, std::optional<std::vector<int64_t>> sizes, int64_t outputs, bool even)
      : axis_(axis), sizes_(std::move(sizes)), outputs_(outputs), even_(even) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, in[0].shape.size()));
    ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, Sizes(in, in[0].shape[axis]));
    std::vector<Facts> out;
    for (int64_t size : sizes) {
      out.push_back({in[0].dtype, in[0].shape});
      out.back().shape[axis] = size;
    }
    return out;
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axis_, in[0].shape.size()));
    if (in[0].batch_axis == axis && out.size() > 1) return MixesSamples("it splits the samples");
    return std::vector<int>(out.size(), in[0].batch_axis);
  }
  bool DifferentiableIn(int input) const override { return input == 0; }
  std::vector<Part> Parts(const InputFacts&, const std::vector<Shape>& in,
                          const std::vector<Shape>& out) const override {
    const int64_t axis = *NormalAxis(axis_, in[0].size());
    const Shape x_strides = RowMajorStrides(in[0]);
    std::vector<Part> parts;
    int64_t begin = 0;
    for (size_t k = 0; k < out.size(); ++k) {
      parts.push_back({0, out[k], x_strides, RowMajorStrides(out[k]), begin * x_strides[axis], 0, static_cast<int>(k)});
      begin += out[k][axis];
    }
    return parts;
  }

 private:
  absl::StatusOr<std::vector<int64_t>> Sizes(const InputFacts& in, int64_t size) const {
    std::vector<int64_t> sizes;
    if (sizes_ || in.has(1)) {
      sizes = sizes_.value_or(std::vector<int64_t>{});
      if (in.has(1)) {
        ASSIGN_OR_RETURN(sizes, ConstantInts(in, 1, "the sizes to split into"));
      }
    } else {
      if (outputs_ <= 0 || (!even_ && size % outputs_ != 0)) {
        return absl::InvalidArgumentError(absl::StrCat(size, " does not split into ", outputs_, " equal parts"));
      }
      const int64_t each = (size + outputs_ - 1) / outputs_;
      for (int64_t k = 0; k < outputs_; ++k) sizes.push_back(std::clamp<int64_t>(size - k * each, 0, each));
    }
    int64_t rest = size;
    for (int64_t part : sizes) {
      if (part < 0 || part > rest) rest = -1;
      if (rest >= 0) rest -= part;
    }
    if (rest != 0 || sizes.empty() || static_cast<int64_t>(sizes.size()) < outputs_) {
      return absl::InvalidArgumentError(
          absl::StrCat("parts ", ShapeText(sizes), " do not make up an axis of size ", size));
    }
    return sizes;
  }

  int64_t axis_;
  std::optional<std::vector<int64_t>> sizes_;
  int64_t outputs_;
  bool even_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeConcat(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", 1));
  return std::make_unique<Concat>(axis);
}

absl::StatusOr<std::unique_ptr<Op>> MakeSplit(const GraphNode& node, int opset) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(node, "axis", 0));
  std::optional<std::vector<int64_t>> sizes;
  if (node.attributes.contains("split")) {
    ASSIGN_OR_RETURN(sizes, IntsAttribute(node, "split", {}));
  }
  const auto outputs = static_cast<int64_t>(node.outputs.size());
  ASSIGN_OR_RETURN(const int64_t stated, IntAttribute(node, "num_outputs", outputs));
  if (stated != outputs) return absl::InvalidArgumentError("num_outputs is not the number of its outputs");
  return std::make_unique<Split>(axis, std::move(sizes), outputs, opset >= 18);
}

}  // namespace jacserve::worker
