// Are all numbers finite? In: raw bytes of floats, at any alignment. Out: yes or no, at the speed of memory.
#pragma once

#include <cstddef>
#include <span>

#include "common/dtype.h"

namespace jacserve::client {

// `bytes` holds whole elements.
bool AllFinite(std::span<const std::byte> bytes, DType dtype);

}  // namespace jacserve::client
