// Where a resized axis takes its numbers from: each output position is a weighted sum of input positions.
// In: sizes, scale, modes. Out: taps, and the same as runs that strided copies can do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace jacserve::worker {

struct ResizeModes {
  std::string mode = "nearest";
  std::string coordinates = "half_pixel";
  std::string nearest = "round_prefer_floor";
  double cubic_a = -0.75;
  bool exclude_outside = false;
};

// `count` outputs from y_begin by y_step take `weight` times the inputs from x_begin by x_step.
struct ResizeRun {
  int64_t x_begin, x_step, y_begin, y_step, count;
  double weight;
};

// InvalidArgument: no such mode. Unimplemented: a mode that needs a region of interest.
absl::Status CheckResizeModes(const ResizeModes& modes);

// Every output position is met at least once unless `in` is 0. Empty: the axis stays as it is.
std::vector<ResizeRun> ResizeRuns(const ResizeModes& modes, int64_t in, int64_t out, double scale);

}  // namespace jacserve::worker
