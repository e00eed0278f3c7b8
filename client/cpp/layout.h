// What a Jacobian consists of: target, rows and blocks, checked once so that nobody after needs to.
// In: the stream's header as it came over the wire. Out: shapes and byte counts that cannot overflow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/dtype.h"
#include "common/row_range.h"
#include "common/shape.h"
#include "jacserve/v1/types.pb.h"

namespace jacserve::client {

// The columns of one parameter or input.
struct BlockLayout {
  std::string name;
  Shape shape;  // of the parameter or of the whole input batch
  DType dtype = DType::kFloat32;
  bool connected = true;  // false: the target does not reach it, and no chunks come
  int64_t row_bytes = 0;  // Elements(shape) * SizeOf(dtype)

  friend bool operator==(const BlockLayout&, const BlockLayout&) = default;
};

struct Layout {
  Shape target_shape;
  int64_t target_rows = 0;  // Elements(target_shape)
  DType value_dtype = DType::kFloat32;
  RowRange rows;  // the rows wanted; within [0, target_rows)
  std::vector<BlockLayout> blocks;

  v1::Precision precision = v1::PRECISION_FP32;
  std::string backend;  // "reference", "cpu" or "cuda"
  std::string device;
  int64_t workers = 0;
  std::vector<std::string> notices;  // for people: what is no error, but perhaps not meant

  int64_t columns() const;    // of connected blocks
  int64_t row_bytes() const;  // of connected blocks
};

// Both describe the same numbers; backend, device, workers and notices may differ.
bool SameNumbers(const Layout& a, const Layout& b);

// `rows` of the result are those of the header. DataLoss: sizes, types or names that no server may send.
absl::StatusOr<Layout> LayoutOf(const v1::JacobianHeader& header);

std::string_view NameOf(v1::Precision precision);     // "fp32", "fp64", "tf32", "fp16" or "bf16"
v1::Precision PrecisionNamed(std::string_view name);  // PRECISION_UNSPECIFIED: no such name

}  // namespace jacserve::client
