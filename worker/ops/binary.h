// Rules of an elementwise function of two inputs that broadcast.
#pragma once

#include "worker/ops/op.h"

namespace jacserve::worker {

std::unique_ptr<Op> MakeBinaryOp(BinaryFunction function);

}  // namespace jacserve::worker
