// Operands as kernels see them: lanes in device memory, and the axes of a shape with the strides of all operands.
#pragma once

#include <cstdint>

#include "common/shape.h"
#include "worker/backend/cuda/device_code.h"

namespace jacserve::worker::cuda {

// Lane l begins at data + stride * index[l * step + first], or without an index at data + stride * (l * step + first).
template <class T>
struct Operand {
  T* data = nullptr;
  int64_t stride = 0;
  const int32_t* index = nullptr;  // device memory
  int64_t step = 1, first = 0;

  JACSERVE_DEVICE T* At(int64_t lane) const {
    const int64_t l = lane * step + first;
    return data + stride * (index != nullptr ? index[l] : l);
  }
};

constexpr int kMostAxes = 17;

// A shape with the strides of N operands, axes merged where all of them allow it.
template <int N>
struct Axes {
  int rank = 0;
  int64_t points = 1;
  int64_t size[kMostAxes];
  int64_t step[N][kMostAxes];

  Axes(const Shape& shape, const Shape* const (&strides)[N]) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      points *= shape[axis];
      if (shape[axis] == 1) continue;
      bool merges = rank > 0;
      for (int v = 0; v < N && merges; ++v) merges = step[v][rank - 1] == (*strides[v])[axis] * shape[axis];
      if (!merges) size[rank++] = 1;
      size[rank - 1] *= shape[axis];
      for (int v = 0; v < N; ++v) step[v][rank - 1] = (*strides[v])[axis];
    }
  }
  Axes() = default;

  // offset[v] = where point p of C order is in operand v.
  JACSERVE_DEVICE void Offsets(int64_t p, int64_t (&offset)[N]) const {
    for (int v = 0; v < N; ++v) offset[v] = 0;
    if (rank == 1) {
      for (int v = 0; v < N; ++v) offset[v] = p * step[v][0];
      return;
    }
    if (points < (int64_t{1} << 32)) {
      auto rest = static_cast<uint32_t>(p);  // 32-bit divisions are several times faster
      for (int axis = rank - 1; axis >= 0; --axis) {
        const auto extent = static_cast<uint32_t>(size[axis]);
        const uint32_t quotient = rest / extent, at = rest - quotient * extent;
        rest = quotient;
        for (int v = 0; v < N; ++v) offset[v] += at * step[v][axis];
      }
      return;
    }
    for (int axis = rank - 1; axis >= 0; --axis) {
      const int64_t at = p % size[axis];
      p /= size[axis];
      for (int v = 0; v < N; ++v) offset[v] += at * step[v][axis];
    }
  }
};

}  // namespace jacserve::worker::cuda
