// The lines of a window that slides: for one kernel position, output positions side by side and the inputs they meet.
// In: sizes. Out: only what lies inside the input, so that loops over a line need no test.
#pragma once

#include <algorithm>

#include "worker/backend/geometry.h"

namespace jacserve::worker {

struct WindowLine {
  int64_t k;      // kernel position
  int64_t l;      // first output position; the others follow one by one
  int64_t n;      // the input position it meets; the others follow by `step`
  int64_t count;  // positions
  int64_t step;
};

// Output positions along one axis whose input at kernel position k lies inside: [first, end).
inline std::pair<int64_t, int64_t> InsideRange(const WindowGeometry& g, int axis, int64_t k) {
  const int64_t shift = k * g.dilation[axis] - g.pad_begin[axis], stride = g.stride[axis];
  const int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const int64_t last = g.in[axis] - 1 - shift;
  return {first, last < 0 ? first : std::max(first, std::min(g.out[axis], last / stride + 1))};
}

// Calls visit(line) for every one, kernel positions in C order.
template <class Visit>
void ForEachLine(const WindowGeometry& g, Visit visit) {
  const auto at = [&](int axis, int64_t l, int64_t k) {
    return l * g.stride[axis] + k * g.dilation[axis] - g.pad_begin[axis];
  };
  for (int64_t k0 = 0; k0 < g.kernel[0]; ++k0) {
    const auto [begin0, end0] = InsideRange(g, 0, k0);
    for (int64_t k1 = 0; k1 < g.kernel[1]; ++k1) {
      const auto [begin1, end1] = InsideRange(g, 1, k1);
      for (int64_t k2 = 0; k2 < g.kernel[2]; ++k2) {
        const auto [begin2, end2] = InsideRange(g, 2, k2);
        if (begin2 == end2) continue;
        const int64_t k = (k0 * g.kernel[1] + k1) * g.kernel[2] + k2;
        for (int64_t l0 = begin0; l0 < end0; ++l0) {
          for (int64_t l1 = begin1; l1 < end1; ++l1) {
            const int64_t n = (at(0, l0, k0) * g.in[1] + at(1, l1, k1)) * g.in[2] + at(2, begin2, k2);
            visit(WindowLine{k, (l0 * g.out[1] + l1) * g.out[2] + begin2, n, end2 - begin2, g.stride[2]});
          }
        }
      }
    }
  }
}

}  // namespace jacserve::worker
