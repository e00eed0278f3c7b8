// How far the integers count that a request computes per sample. They are computed with as numbers of the precision,
// and float32 holds every integer only up to 2^24. In: a program and the numbers it is given. Out: the first node whose
// integers may go beyond that.
#pragma once

#include <optional>
#include <string>

#include "worker/engine/engine.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

constexpr double kMostInFloat32 = 1 << 24;

// "node hash (Mul) counts to 1.3e+11", from the largest integers of the tensors; none when float32 is enough.
std::optional<std::string> IntegersBeyondFloat32(const SampleProgram& program, const JacobianProblem& problem);

}  // namespace jacserve::worker
