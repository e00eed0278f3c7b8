#include "worker/ops/broadcast.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace jacserve::worker {

absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t u = axis + a.size() < rank ? 1 : a[axis + a.size() - rank];
    const int64_t v = axis + b.size() < rank ? 1 : b[axis + b.size() - rank];
    if (u != v && u != 1 && v != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("shapes ", ShapeText(a), " and ", ShapeText(b), " do not broadcast"));
    }
    out[axis] = u == 1 ? v : u;
  }
  return out;
}

Shape BroadcastStrides(const Shape& from, const Shape& to) {
  const Shape strides = RowMajorStrides(from);
  Shape out(to.size(), 0);
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] != 1) out[axis + to.size() - from.size()] = strides[axis];
  }
  return out;
}

absl::StatusOr<int> BroadcastBatchAxis(const InputFacts& in, const Shape& out) {
  int result = -1;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in.has(i) || in[i].batch_axis < 0) continue;
    const int axis = in[i].batch_axis + static_cast<int>(out.size() - in[i].shape.size());
    if (result >= 0 && axis != result) return MixesSamples("its inputs hold the samples along different axes");
    result = axis;
  }
  for (size_t i = 0; i < in.size() && result >= 0; ++i) {
    if (!in.has(i) || in[i].batch_axis >= 0) continue;
    const int axis = result - static_cast<int>(out.size() - in[i].shape.size());
    if (axis >= 0 && in[i].shape[axis] != 1) return MixesSamples("one input has another slice for every sample");
  }
  return result;
}

}  // namespace jacserve::worker
