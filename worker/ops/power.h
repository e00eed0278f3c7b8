// Powers with constant exponents, as nodes of an expansion.
#pragma once

#include <string>

#include "worker/ops/expansion.h"

namespace jacserve::worker {

// |x|^p for p > 0.
std::string AbsolutePower(Expansion& e, const std::string& x, double p);
// x^p for x > 0.
std::string PositivePower(Expansion& e, const std::string& x, double p);
// x^p for x >= 0 and p > 0. Where x is 0 so is its derivative, even where that of the power is not: a window of zeros
// then says nothing rather than NaN.
std::string PowerOrZero(Expansion& e, const std::string& x, double p);

}  // namespace jacserve::worker
