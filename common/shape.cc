#include "common/shape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status.h"

namespace jacserve {
namespace {
constexpr int64_t kMaxElements = int64_t{1} << 62;
}

absl::StatusOr<int64_t> ElementCount(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) {
      return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeText(shape), " has a negative axis"));
    }
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(count, size, &count) || count > kMaxElements) {
      return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeText(shape), " has more than 2^62 elements"));
    }
  }
  return empty ? 0 : count;
}

absl::StatusOr<int64_t> ByteCount(std::span<const int64_t> shape, DType dtype) {
  ASSIGN_OR_RETURN(int64_t count, ElementCount(shape));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(count, SizeOf(dtype), &bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeText(shape), " has more than 2^63 bytes"));
  }
  return bytes;
}

int64_t Elements(std::span<const int64_t> shape) {
  absl::StatusOr<int64_t> count = ElementCount(shape);
  JACSERVE_CHECK(count.ok());
  return *count;
}

Shape RowMajorStrides(std::span<const int64_t> shape) {
  Shape strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * shape[axis];
  }
  return strides;
}

std::string ShapeText(std::span<const int64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

}  // namespace jacserve
