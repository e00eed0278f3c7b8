// Plain loops for the largest numbers along an axis, running sums and numbers at given offsets.
#include <algorithm>
#include <vector>

#include "worker/backend/reference/reference_backend.h"

namespace jacserve::worker {

template <class T>
void ReferenceBackend<T>::TakeAt(int64_t lanes, int64_t n_out, ConstLanes arg, ConstLanes x, Lanes y) const {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const int32_t* where = arg.At<int32_t>(lane);
    const T* in = x.At<T>(lane);
    T* out = y.At<T>(lane);
    for (int64_t p = 0; p < n_out; ++p) out[p] = where[p] >= 0 ? in[where[p]] : T(0);
  }
}

template <class T>
void ReferenceBackend<T>::TopK(const TopKShape& s, int64_t lanes, ConstLanes x, Lanes values, Lanes indices,
                               Lanes arg) const {
  std::vector<int64_t> order(s.k == 1 ? 0 : s.n);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (int64_t line = 0; line < s.outer * s.inner; ++line) {
      const int64_t base = line / s.inner * s.n * s.inner + line % s.inner;
      const T* in = x.At<T>(lane) + base;
      const auto before = [&](int64_t i, int64_t j) {
        const T u = in[i * s.inner], v = in[j * s.inner];
        if (u == v) return s.last_of_equal ? i > j : i < j;
        return s.largest ? u > v : u < v;
      };
      int64_t first = 0;
      if (s.k == 1) {
        for (int64_t i = 1; i < s.n; ++i) {
          if (before(i, first)) first = i;
        }
      } else {
        for (int64_t i = 0; i < s.n; ++i) order[i] = i;
        std::partial_sort(order.begin(), order.begin() + s.k, order.end(), before);
      }
      for (int64_t i = 0; i < s.k; ++i) {
        const int64_t index = s.k == 1 ? first : order[i];
        const int64_t to = line / s.inner * s.k * s.inner + i * s.inner + line % s.inner;
        if (values.data != nullptr) values.At<T>(lane)[to] = in[index * s.inner];
        if (indices.data != nullptr) indices.At<T>(lane)[to] = static_cast<T>(index);
        if (arg.data != nullptr) arg.At<int32_t>(lane)[to] = static_cast<int32_t>(base + index * s.inner);
      }
    }
  }
}

template <class T>
void ReferenceBackend<T>::Scan(bool product, bool exclusive, bool reverse, int64_t lanes, int64_t outer, int64_t n,
                               int64_t inner, ConstLanes x, Lanes y) const {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (int64_t line = 0; line < outer * inner; ++line) {
      const int64_t base = line / inner * n * inner + line % inner;
      const T* in = x.At<T>(lane) + base;
      T* out = y.At<T>(lane) + base;
      T total = product ? T(1) : T(0);
      for (int64_t k = 0; k < n; ++k) {
        const int64_t p = (reverse ? n - 1 - k : k) * inner;
        const T before = total;
        total = product ? total * in[p] : total + in[p];
        out[p] = exclusive ? before : total;
      }
    }
  }
}

template class ReferenceBackend<float>;
template class ReferenceBackend<double>;

}  // namespace jacserve::worker
