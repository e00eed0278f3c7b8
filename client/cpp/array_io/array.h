// An array in host memory as the file readers hand it out: type, shape, bytes in C order.
// In: nothing. Out: the type that uploads, verification and file writers share.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/dtype.h"
#include "common/shape.h"

namespace jacserve::client {

// `bytes` holds Elements(shape) * SizeOf(dtype) bytes, little-endian, at any alignment; it lives while a copy of
// `keep_alive` does (a mapped file or a buffer).
struct Array {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep_alive;
};

using NamedArrays = std::vector<std::pair<std::string, Array>>;

}  // namespace jacserve::client
