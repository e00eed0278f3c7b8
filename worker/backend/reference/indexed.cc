// Plain loops for what goes by indices: blocks taken from, and put to, the places that they name.
#include <algorithm>
#include <cmath>
#include <limits>

#include "worker/backend/reference/reference_backend.h"

namespace jacserve::worker {
namespace {

constexpr int64_t kNoPlace = -1;

// Calls visit(number of p, at(p) or kNoPlace) for every point.
template <class T, class Visit>
void ForEachPlace(const IndexGeometry& g, const T* index, Visit visit) {
  const int64_t count = Elements(g.points);
  const size_t rank = g.points.size();
  Shape point(rank, 0);
  int64_t base = 0, where = 0;
  for (int64_t p = 0; p < count; ++p) {
    int64_t at = base;
    for (size_t k = 0; k < g.sizes.size(); ++k) {
      const T i = index[where + static_cast<int64_t>(k) * g.component_stride];
      const T size = static_cast<T>(g.sizes[k]);
      if (!(i >= -size && i < size)) {  // NaN too
        at = kNoPlace;
        break;
      }
      const auto whole = static_cast<int64_t>(i);
      at += (whole < 0 ? whole + g.sizes[k] : whole) * g.strides[k];
    }
    visit(p, at);
    for (size_t axis = rank; axis-- > 0;) {
      base += g.base_strides[axis];
      where += g.index_strides[axis];
      if (++point[axis] < g.points[axis]) break;
      base -= g.base_strides[axis] * g.points[axis];
      where -= g.index_strides[axis] * g.points[axis];
      point[axis] = 0;
    }
  }
}

}  // namespace

template <class T>
void ReferenceBackend<T>::TakeIndexed(const IndexGeometry& g, int64_t lanes, ConstLanes x, ConstLanes index,
                                      double outside, Lanes y) const {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T* in = x.At<T>(lane);
    T* out = y.At<T>(lane);
    ForEachPlace(g, index.At<T>(lane), [&](int64_t p, int64_t at) {
      if (at == kNoPlace) {
        std::fill_n(out + p * g.block, g.block, static_cast<T>(outside));
      } else {
        std::copy_n(in + at, g.block, out + p * g.block);
      }
    });
  }
}

template <class T>
void ReferenceBackend<T>::PutIndexed(const IndexGeometry& g, int64_t lanes, ConstLanes index, ConstLanes values,
                                     bool accumulate, int64_t poison, Lanes x) const {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T* in = values.At<T>(lane);
    T* out = x.At<T>(lane);
    bool all_have_places = true;
    ForEachPlace(g, index.At<T>(lane), [&](int64_t p, int64_t at) {
      if (at == kNoPlace) {
        all_have_places = false;
      } else if (accumulate) {
        for (int64_t j = 0; j < g.block; ++j) out[at + j] += in[p * g.block + j];
      } else {
        std::copy_n(in + p * g.block, g.block, out + at);
      }
    });
    if (!all_have_places) std::fill_n(out, poison, std::numeric_limits<T>::quiet_NaN());
  }
}

template class ReferenceBackend<float>;
template class ReferenceBackend<double>;

}  // namespace jacserve::worker
