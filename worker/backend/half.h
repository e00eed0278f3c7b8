// The 16-bit formats as rounding of float32: values between operators are kept in them, sums and rows are not.
// Round to nearest, ties to even, as IEEE 754 has it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "worker/backend/formulas.h"

namespace jacserve::worker {

enum class HalfFormat { kFloat16, kBfloat16 };

// What rounding lost: numbers that became zero, numbers that became infinite.
struct HalfLoss {
  int64_t underflows = 0;
  int64_t overflows = 0;
};

// 5 bits of exponent, 10 of fraction: steps of 2^-24 below 2^-14, infinite from 65520 on.
JACSERVE_EVERYWHERE inline float RoundToFloat16(float x) {
  const float size = std::fabs(x);
  if (!(size < 65520.0f)) return std::isnan(x) ? x : std::copysign(std::numeric_limits<float>::infinity(), x);
  if (size < 0x1p-14f) return std::copysign((size + 0.5f) - 0.5f, x);  // the last bit of numbers near 1/2 is 2^-24
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu);
}

// The upper half of a float32.
JACSERVE_EVERYWHERE inline float RoundToBfloat16(float x) {
  if (std::isnan(x)) return x;
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fffu + ((bits >> 16) & 1u)) & ~0xffffu);
}

}  // namespace jacserve::worker
