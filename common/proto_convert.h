// Wire types to ours and back, with every field checked on the way in.
// In: messages as somebody sent them. Out: types, shapes and ranges that need no further checks.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/dtype.h"
#include "common/row_range.h"
#include "common/shape.h"
#include "jacserve/v1/types.pb.h"

namespace jacserve {

constexpr size_t kMaxNameBytes = 1'024;
constexpr int kMaxRank = 16;

// A tensor whose bytes are elsewhere, under their digest.
struct TensorRef {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  int64_t size_bytes = 0;  // of the shape and dtype
  std::string sha256;      // kDigestBytes
};

// InvalidArgument: no name or a name over the limit, no dtype, a bad shape, a digest that is not 32 bytes.
absl::StatusOr<TensorRef> FromProto(const v1::NamedTensor& tensor);

// OutOfRange: negative, or past 2^63. Whether the target has these rows is for the caller.
absl::StatusOr<RowRange> FromProto(const v1::RowRange& range);

v1::RowRange ToProto(RowRange range);
v1::DataType ToProto(DType dtype);

}  // namespace jacserve
