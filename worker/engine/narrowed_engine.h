// Rows that are computed in float64 and delivered in float32. For graphs that mix the samples of a batch: there terms
// of the whole batch cancel (what a mean takes off again), and float32 keeps nothing of the difference. And for graphs
// that compute integers beyond 2^24, which float32 does not hold; float64 does up to 2^53. In: an engine in float64.
// Out: the same Jacobian in float32.
#pragma once

#include <memory>

#include "worker/engine/engine.h"

namespace jacserve::worker {

std::unique_ptr<Engine> NarrowToFloat32(std::unique_ptr<Engine> engine);

}  // namespace jacserve::worker
