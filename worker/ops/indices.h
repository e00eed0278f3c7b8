// Indices that name places in a value, for operators that take from there or put there.
#pragma once

#include "absl/status/status.h"
#include "worker/ops/op.h"

namespace jacserve::worker {

// Input 1 where it is known; component k of a place counts along an axis of sizes[k], in the innermost axis of the
// indices. InvalidArgument: one is out of range.
absl::Status CheckKnownIndices(const InputFacts& in, const Shape& sizes);

// Place q of the indices is q in x, but along `axis`, where the index stands.
IndexGeometry ElementPlaces(const Shape& x, const Shape& index, int64_t axis);

// Place p is the block of x at (b, index[b, p, 0], .., index[b, p, K - 1]), b along the first `batch_dims` axes.
IndexGeometry TuplePlaces(const Shape& x, const Shape& index, int64_t batch_dims);

// Every lane of x [n] where an index of the lane names no place becomes NaN from beginning to end.
void PoisonUnplaced(const IndexGeometry& places, const Backend& backend, int64_t lanes, const ConstLanes& index,
                    int64_t n, const Lanes& x);

}  // namespace jacserve::worker
