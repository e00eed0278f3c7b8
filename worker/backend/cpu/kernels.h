// Vector kernels, compiled for several instruction sets and chosen for this processor when first called.
// In and out: float32 in memory, any alignment unless said.
#pragma once

#include <cstdint>

namespace jacserve::worker::cpu {

// out [m, n] = (or +=) sum over k < terms (1 or 2) of a[k] [m] outer b[k] [n]. Written once, past the caches when
// `stream` and the rows of out are aligned.
void OuterSum(int terms, int64_t m, int64_t n, const float* const* a, const float* const* b, float* out,
              bool accumulate, bool stream);

void AddScaled(int64_t n, float scale, const float* x, float* y);  // y += scale x
void Scale(int64_t n, float scale, const float* x, float* y);      // y = scale x
float Sum(int64_t n, const float* x);
void ReluPullback(int64_t n, const float* y, const float* ct_y, float* ct_x);  // ct_x = ct_y where y > 0, else 0

}  // namespace jacserve::worker::cpu
