// Strided copies and sums with the axes put in the best order first.
// In: shape and strides in elements. Out: a plan that is run for every lane.
#pragma once

#include "common/shape.h"

namespace jacserve::worker::cpu {

// dst[p . dst_strides] = (or +=) scale * src[p . src_strides]. Axes that lie in one stretch in both are merged; an axis
// with a dst stride of 0 (a sum) is summed innermost.
template <class T>
class StridedCopy {
 public:
  StridedCopy(const Shape& shape, const Shape& src_strides, const Shape& dst_strides, bool accumulate, T scale);
  void Run(const T* src, T* dst) const;

 private:
  struct Axis {
    int64_t size, src, dst;
  };
  void RunInner(const T* src, T* dst) const;

  std::vector<Axis> outer_;
  Axis inner_{1, 1, 1};
  bool empty_ = false;
  bool accumulate_;
  T scale_;
};

}  // namespace jacserve::worker::cpu
