// Windows that slide over a sample: the sizes of a convolution or pooling, up to three spatial axes. Channels and
// groups of a normalisation. Places that indices name.
// Notation: i, o input and output channels, g groups, n input size, l output size, k kernel, per spatial axis.
#pragma once

#include <array>
#include <cstdint>

#include "common/shape.h"

namespace jacserve::worker {

constexpr int kSpatialAxes = 3;  // fewer axes lead with sizes of 1
using Spatial = std::array<int64_t, kSpatialAxes>;

struct WindowGeometry {
  int64_t in_channels = 1;
  int64_t out_channels = 1;
  int64_t groups = 1;
  Spatial in = {1, 1, 1};
  Spatial out = {1, 1, 1};
  Spatial kernel = {1, 1, 1};
  Spatial stride = {1, 1, 1};
  Spatial dilation = {1, 1, 1};
  Spatial pad_begin = {0, 0, 0};
  Spatial pad_end = {0, 0, 0};  // only for what counts padding; windows may reach beyond it
  bool kernel_major = false;    // order of K: false (i, k) as in OIHW, true (k, i) as in HWIO

  static int64_t Volume(const Spatial& s) { return s[0] * s[1] * s[2]; }
  int64_t InSize() const { return in_channels * Volume(in); }
  int64_t OutSize() const { return out_channels * Volume(out); }
  int64_t L() const { return Volume(out); }                            // output positions
  int64_t K() const { return in_channels / groups * Volume(kernel); }  // patch length of one group
  int64_t PatchSize() const { return groups * K() * L(); }
};

// Places in a value that indices name. Point p of `points` (C order) names the block of elements that begins at
// at(p) = p . base_strides + sum over k of i_k strides_k, where i_k = index[p . index_strides + k component_stride] and
// a negative i_k counts from the end. An index outside [-sizes_k, sizes_k) names no place.
struct IndexGeometry {
  Shape points, base_strides, index_strides;
  Shape sizes, strides;  // of the axes that are indexed
  int64_t component_stride = 1;
  int64_t block = 1;
};

// A value of n numbers whose number q belongs to channel q / run % period.
struct Channels {
  int64_t n = 1;
  int64_t run = 1;
  int64_t period = 1;
  friend bool operator==(const Channels&, const Channels&) = default;
};

// Stretches of n numbers, each normalised by itself.
struct NormGroups {
  int64_t groups = 1;
  int64_t n = 1;
  bool centred = true;  // false: the mean counts as 0
  double epsilon = 0.0;
};

}  // namespace jacserve::worker
