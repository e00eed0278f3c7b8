// The strided walk of the plain loops.
#pragma once

#include <array>

#include "common/shape.h"

namespace jacserve::worker {

// Calls visit(offset of a, offset of b, ...) for every point of `shape` in C order.
template <size_t N, class Visit>
void ForEachPoint(const Shape& shape, const std::array<const Shape*, N>& strides, Visit visit) {
  for (int64_t size : shape) {
    if (size == 0) return;
  }
  Shape point(shape.size(), 0);
  std::array<int64_t, N> offset{};
  while (true) {
    visit(offset);
    size_t axis = shape.size();
    while (axis > 0) {
      --axis;
      ++point[axis];
      for (size_t v = 0; v < N; ++v) offset[v] += (*strides[v])[axis];
      if (point[axis] < shape[axis]) break;
      for (size_t v = 0; v < N; ++v) offset[v] -= (*strides[v])[axis] * shape[axis];
      point[axis] = 0;
      if (axis == 0) return;
    }
    if (shape.empty()) return;
  }
}

}  // namespace jacserve::worker
