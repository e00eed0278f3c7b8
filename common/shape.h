// Shapes and their sizes, with overflow checked before a size is used.
// In: axis sizes in elements. Out: element and byte counts, C-order strides, text for people.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/dtype.h"

namespace jacserve {

using Shape = std::vector<int64_t>;  // elements per axis; empty: a scalar

// Product of the axes. InvalidArgument: a negative axis, or more than 2^62 elements.
absl::StatusOr<int64_t> ElementCount(std::span<const int64_t> shape);

// ElementCount times the element's size. InvalidArgument as above.
absl::StatusOr<int64_t> ByteCount(std::span<const int64_t> shape, DType dtype);

// For a shape that was checked before.
int64_t Elements(std::span<const int64_t> shape);

// Elements to step per axis in C order.
Shape RowMajorStrides(std::span<const int64_t> shape);

// "[56, 56]"; "[]" for a scalar.
std::string ShapeText(std::span<const int64_t> shape);

}  // namespace jacserve
