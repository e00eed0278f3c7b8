#include "worker/backend/cpu/strided.h"

#include <algorithm>
#include <cstring>

#include "worker/backend/cpu/kernels.h"

namespace jacserve::worker::cpu {

template <class T>
StridedCopy<T>::StridedCopy(const Shape& shape, const Shape& src_strides, const Shape& dst_strides, bool accumulate,
                            T scale)
    : accumulate_(accumulate), scale_(scale) {
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 0) empty_ = true;
    if (shape[axis] != 1) outer_.push_back({shape[axis], src_strides[axis], dst_strides[axis]});
  }
  for (size_t axis = outer_.size(); axis-- > 1;) {  // merge an axis into the one before it
    Axis& before = outer_[axis - 1];
    const Axis& own = outer_[axis];
    if (before.src == own.src * own.size && before.dst == own.dst * own.size) {
      before = {before.size * own.size, own.src, own.dst};
      outer_.erase(outer_.begin() + static_cast<int64_t>(axis));
    }
  }
  if (outer_.empty()) return;
  // Innermost: a stretch of dst, else of src. The order of a sum over other axes stays as it is.
  auto best = std::prev(outer_.end());
  const bool sums = std::any_of(outer_.begin(), outer_.end(), [](const Axis& a) { return a.dst == 0; });
  if (!sums) {
    const auto contiguous = std::find_if(outer_.begin(), outer_.end(), [](const Axis& a) { return a.dst == 1; });
    if (contiguous != outer_.end()) best = contiguous;
  }
  inner_ = *best;
  outer_.erase(best);
}

template <class T>
void StridedCopy<T>::RunInner(const T* src, T* dst) const {
  const auto [size, from, to] = inner_;
  if (to == 0 && accumulate_) {
    T sum = 0;
    if (from == 1) {
      sum = Sum(size, src);
    } else {
      for (int64_t p = 0; p < size; ++p) sum += src[p * from];
    }
    *dst += scale_ * sum;
  } else if (from == 1 && to == 1) {
    if (accumulate_) {
      AddScaled(size, scale_, src, dst);
    } else if (scale_ == T(1)) {
      std::memcpy(dst, src, size * sizeof(T));
    } else {
      Scale(size, scale_, src, dst);
    }
  } else if (accumulate_) {
    for (int64_t p = 0; p < size; ++p) dst[p * to] += scale_ * src[p * from];
  } else {
    for (int64_t p = 0; p < size; ++p) dst[p * to] = scale_ * src[p * from];
  }
}

template <class T>
void StridedCopy<T>::Run(const T* src, T* dst) const {
  if (empty_) return;
  int64_t points = 1;
  for (const Axis& axis : outer_) points *= axis.size;
  std::vector<int64_t> at(outer_.size(), 0);
  for (int64_t point = 0; point < points; ++point) {
    RunInner(src, dst);
    for (size_t axis = outer_.size(); axis-- > 0;) {
      src += outer_[axis].src;
      dst += outer_[axis].dst;
      if (++at[axis] < outer_[axis].size) break;
      src -= outer_[axis].src * outer_[axis].size;
      dst -= outer_[axis].dst * outer_[axis].size;
      at[axis] = 0;
    }
  }
}

template class StridedCopy<float>;
template class StridedCopy<double>;

}  // namespace jacserve::worker::cpu
