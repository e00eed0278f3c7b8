// Shape and Constant: integers that are known when the graph is compiled, and tensors written into the graph.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/folded.h"
#include "worker/ops/folding.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

// The shape of x from axis `start` to `end`, as int64.
class ShapeOf : public FoldedOp {
 public:
  ShapeOf(int64_t start, int64_t end) : start_(start), end_(end) {}
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    return std::vector<Facts>{{DType::kInt64, {static_cast<int64_t>(Part(in).size())}}};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    const std::vector<int64_t> part = Part(in);
    return std::vector<HostTensor>{IntTensor(DType::kInt64, {static_cast<int64_t>(part.size())}, part)};
  }

 private:
  std::vector<int64_t> Part(const InputFacts& in) const {
    const auto rank = static_cast<int64_t>(in[0].shape.size());
    const auto clamp = [&](int64_t axis) { return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank); };
    const int64_t begin = clamp(start_), end = std::max(begin, clamp(end_));
    return {in[0].shape.begin() + begin, in[0].shape.begin() + end};
  }
  int64_t start_, end_;
};

class Constant : public FoldedOp {
 public:
  explicit Constant(HostTensor value) : value_(std::move(value)) {}
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts&) const override {
    return std::vector<Facts>{{value_.dtype, value_.shape}};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts&) const override {
    return std::vector<HostTensor>{value_};
  }

 private:
  HostTensor value_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeShape(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t start, IntAttribute(node, "start", 0));
  ASSIGN_OR_RETURN(const int64_t end, IntAttribute(node, "end", INT64_MAX));
  return std::make_unique<ShapeOf>(start, end);
}

absl::StatusOr<std::unique_ptr<Op>> MakeConstant(const GraphNode& node, int) {
  for (const auto& [name, value] : node.attributes) {
    if (const auto* tensor = std::get_if<HostTensor>(&value)) return std::make_unique<Constant>(*tensor);
    if (const auto* one = std::get_if<int64_t>(&value)) {
      return std::make_unique<Constant>(IntTensor(DType::kInt64, {}, {*one}));
    }
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      return std::make_unique<Constant>(IntTensor(DType::kInt64, {static_cast<int64_t>(list->size())}, *list));
    }
    if (const auto* one = std::get_if<float>(&value)) return std::make_unique<Constant>(FloatConstant({}, {*one}));
    if (const auto* list = std::get_if<std::vector<float>>(&value)) {
      return std::make_unique<Constant>(
          FloatConstant({static_cast<int64_t>(list->size())}, {list->begin(), list->end()}));
    }
  }
  return absl::UnimplementedError("a Constant without a tensor or number");
}

}  // namespace jacserve::worker
