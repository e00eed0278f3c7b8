#include "worker/ops/indices.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/ops/attributes.h"

namespace jacserve::worker {

absl::Status CheckKnownIndices(const InputFacts& in, const Shape& sizes) {
  if (in[1].constant == nullptr) return absl::OkStatus();
  const std::vector<int64_t> index = IntsOf(*in[1].constant);
  for (size_t p = 0; p < index.size(); ++p) {
    const int64_t size = sizes[p % sizes.size()];
    if (index[p] < -size || index[p] >= size) {
      return absl::InvalidArgumentError(absl::StrCat("index ", index[p], " is outside an axis of size ", size));
    }
  }
  return absl::OkStatus();
}

void PoisonUnplaced(const IndexGeometry& places, const Backend& backend, int64_t lanes, const ConstLanes& index,
                    int64_t n, const Lanes& x) {
  IndexGeometry nothing = places;
  nothing.block = 0;
  backend.PutIndexed(nothing, lanes, index, x, false, n, x);
}

IndexGeometry ElementPlaces(const Shape& x, const Shape& index, int64_t axis) {
  const Shape strides = RowMajorStrides(x);
  IndexGeometry g{.points = index,
                  .base_strides = strides,
                  .index_strides = RowMajorStrides(index),
                  .sizes = {x[axis]},
                  .strides = {strides[axis]}};
  g.base_strides[axis] = 0;
  return g;
}

IndexGeometry TuplePlaces(const Shape& x, const Shape& index, int64_t batch_dims) {
  const int64_t components = index.back();
  const Shape x_strides = RowMajorStrides(x), index_strides = RowMajorStrides(index);
  const auto begin = x.begin() + batch_dims;
  const auto stride = x_strides.begin() + batch_dims;
  IndexGeometry g{.points = {index.begin(), index.end() - 1},
                  .base_strides = Shape(index.size() - 1, 0),
                  .index_strides = {index_strides.begin(), index_strides.end() - 1},
                  .sizes = {begin, begin + components},
                  .strides = {stride, stride + components},
                  .block = Elements({begin + components, x.end()})};
  std::copy_n(x_strides.begin(), batch_dims, g.base_strides.begin());
  return g;
}

}  // namespace jacserve::worker
