// Multidirectional broadcasting: shapes, strides and the batch axis under it.
#pragma once

#include "absl/status/statusor.h"
#include "worker/ops/op.h"

namespace jacserve::worker {

// InvalidArgument: shapes that do not broadcast.
absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b);
// Strides of `from` seen as `to`: 0 along the axes where it repeats.
Shape BroadcastStrides(const Shape& from, const Shape& to);
// The axis of the broadcast result along which samples lie. FailedPrecondition: two inputs disagree, or a shared input
// has a different slice for every sample.
absl::StatusOr<int> BroadcastBatchAxis(const InputFacts& in, const Shape& out);

}  // namespace jacserve::worker
