// Parameters of a normalisation as channels of the value that they scale or shift.
// In: shapes. Out: sizes for the backend's Affine and ChannelRows.
#pragma once

#include "absl/status/statusor.h"
#include "worker/ops/op.h"

namespace jacserve::worker {

// A parameter that broadcasts to x. InvalidArgument: it does not. Unimplemented: it repeats between its own axes.
absl::StatusOr<Channels> BroadcastChannels(const Shape& parameter, const Shape& x);

// FailedPrecondition: input i has a slice for each sample.
absl::Status CheckParameterIsShared(const InputFacts& in, size_t i);

// One operand's rule for tangents: tan_y += a[q] tan_gain[c], with a `buffer` of c.n numbers. Does nothing without
// data.
void AddGainTangent(const Channels& c, const PushforwardArgs& args, const ConstLanes& a, const ConstLanes& tan_gain,
                    Lanes tan_y);

}  // namespace jacserve::worker
