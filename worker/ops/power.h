// Powers with constant exponents, as nodes of an expansion.
#pragma once

#include <string>

#include "worker/ops/expansion.h"

namespace jacserve::worker {

// |x|^p for p > 0.
std::string AbsolutePower(Expansion& e, const std::string& x, double p);
// x^p for x > 0, or x >= 0 where p > 0.
std::string PositivePower(Expansion& e, const std::string& x, double p);

}  // namespace jacserve::worker
