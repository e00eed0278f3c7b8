// Operands moved within their lanes.
#pragma once

#include "worker/backend/backend.h"

namespace jacserve::worker {

// The operand that begins `offset` elements into every lane.
inline ConstLanes At(ConstLanes lanes, int64_t offset, const Backend& backend) {
  if (lanes.data != nullptr) {
    lanes.data = static_cast<const std::byte*>(lanes.data) + offset * backend.element_bytes();
  }
  return lanes;
}
inline Lanes At(Lanes lanes, int64_t offset, const Backend& backend) {
  lanes.data = static_cast<std::byte*>(lanes.data) + offset * backend.element_bytes();
  return lanes;
}

}  // namespace jacserve::worker
