// Operators that move or repeat numbers, as graphs of others.
// Tile: each axis is repeated in front of itself and joined with it. Compress: a Gather of the places where a condition
// that is known holds. Dropout: the identity, as it is outside training; its mask keeps everything.
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {

absl::Status ExpandTile(Expansion& e, int) {
  if (!e.in().has(0)) return absl::InvalidArgumentError("needs an input");
  ASSIGN_OR_RETURN(const std::vector<int64_t> repeats, ConstantInts(e.in(), 1, "the repeats"));
  const Shape& shape = e.shape(0);
  if (repeats.size() != shape.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(repeats.size(), " repeats do not fit a value of rank ", shape.size()));
  }
  Shape apart, repeated, joined;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (repeats[axis] < 0) return absl::InvalidArgumentError("a negative repeat");
    if (repeats[axis] != 1 && shape[axis] != 1) {
      apart.push_back(1);
      repeated.push_back(repeats[axis]);
    }
    apart.push_back(shape[axis]);
    repeated.push_back(shape[axis] == 1 ? repeats[axis] : shape[axis]);
    joined.push_back(0);
    if (__builtin_mul_overflow(shape[axis], repeats[axis], &joined.back())) {
      return absl::InvalidArgumentError("the repeats make too many elements");
    }
  }
  std::string y = e.x(0);
  const Expansion::Attributes exact = {{"allowzero", int64_t{1}}};
  if (apart != shape) y = e.Add("Reshape", {y, e.Ints(apart)}, exact);
  y = e.Add("Expand", {y, e.Ints(repeated)});  // once too: the repeats may be the number of samples
  if (joined != repeated) y = e.Add("Reshape", {y, e.Ints(joined)}, exact);
  e.Output(0, y);
  return absl::OkStatus();
}

absl::Status ExpandCompress(Expansion& e, int) {
  if (!e.in().has(0)) return absl::InvalidArgumentError("needs an input");
  ASSIGN_OR_RETURN(const std::vector<int64_t> condition, ConstantInts(e.in(), 1, "the condition"));
  const bool flat = !e.node().attributes.contains("axis");
  ASSIGN_OR_RETURN(int64_t axis, IntAttribute(e.node(), "axis", 0));
  ASSIGN_OR_RETURN(axis, NormalAxis(axis, flat ? 1 : static_cast<int64_t>(e.shape(0).size())));
  const int64_t size = flat ? Elements(e.shape(0)) : e.shape(0)[axis];
  std::vector<int64_t> places;
  for (size_t p = 0; p < condition.size(); ++p) {
    if (condition[p] != 0) places.push_back(static_cast<int64_t>(p));
  }
  if (!places.empty() && places.back() >= size) {
    return absl::InvalidArgumentError(
        absl::StrCat("a condition of ", condition.size(), " elements for an axis of size ", size));
  }
  const std::string x = flat ? e.Add("Reshape", {e.x(0), e.Ints({-1})}) : e.x(0);
  e.Output(0, e.Add("Gather", {x, e.Ints(places)}, {{"axis", axis}}));
  return absl::OkStatus();
}

absl::Status ExpandDropout(Expansion& e, int opset) {
  if (!e.in().has(0)) return absl::InvalidArgumentError("needs an input");
  ASSIGN_OR_RETURN(const int64_t is_test, IntAttribute(e.node(), "is_test", opset < 7 ? 0 : 1));
  bool trains = is_test == 0;
  if (e.in().has(2)) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> training_mode, ConstantInts(e.in(), 2, "whether it trains"));
    trains = training_mode.size() != 1 || training_mode[0] != 0;
  }
  if (trains) return absl::UnimplementedError("a Dropout that trains; export the model for inference");
  e.Output(0, e.x(0));
  if (e.node().outputs.size() < 2 || e.node().outputs[1].empty()) return absl::OkStatus();
  const std::string shape = e.Ints(e.shape(0));
  if (opset < 10) {
    e.Output(1, e.Add("Expand", {e.Number(1.0), shape}));
  } else {
    const HostTensor yes = IntTensor(DType::kBool, {1}, {1});
    e.Output(1, e.Add("ConstantOfShape", {shape}, {{"value", yes}}));
  }
  return absl::OkStatus();
}

}  // namespace jacserve::worker
