#include "client/cpp/layout.h"

#include <optional>
#include <set>

#include "client/cpp/text.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

constexpr std::pair<v1::Precision, std::string_view> kPrecisions[] = {{v1::PRECISION_FP32, "fp32"},
                                                                      {v1::PRECISION_FP64, "fp64"},
                                                                      {v1::PRECISION_TF32, "tf32"},
                                                                      {v1::PRECISION_FP16, "fp16"},
                                                                      {v1::PRECISION_BF16, "bf16"}};

absl::Status BadHeader(std::string_view what) {
  return absl::DataLossError(Cat("the server's answer cannot be read: ", what));
}

std::optional<DType> DTypeOf(v1::DataType dtype) {
  if (dtype == v1::DATA_TYPE_FLOAT32) return DType::kFloat32;
  if (dtype == v1::DATA_TYPE_FLOAT64) return DType::kFloat64;
  return std::nullopt;
}

absl::StatusOr<BlockLayout> BlockOf(const v1::Block& block, const Shape& target_shape) {
  BlockLayout layout;
  layout.name = block.name();
  layout.shape.assign(block.shape().begin(), block.shape().end());
  layout.connected = block.status() != v1::BLOCK_STATUS_UNCONNECTED;
  const std::optional<DType> dtype = DTypeOf(block.dtype());
  if (!dtype && layout.connected) return BadHeader(Cat("block '", layout.name, "' holds no floats"));
  layout.dtype = dtype.value_or(DType::kFloat32);
  Shape whole = target_shape;
  whole.insert(whole.end(), layout.shape.begin(), layout.shape.end());
  const absl::StatusOr<int64_t> row_bytes = ByteCount(layout.shape, layout.dtype);
  if (!row_bytes.ok() || !ByteCount(whole, layout.dtype).ok()) {
    return BadHeader(Cat("block '", layout.name, "' has shape ", ShapeText(layout.shape)));
  }
  layout.row_bytes = *row_bytes;
  return layout;
}

}  // namespace

int64_t Layout::columns() const {
  int64_t sum = 0;
  for (const BlockLayout& block : blocks) sum += block.connected ? Elements(block.shape) : 0;
  return sum;
}

int64_t Layout::row_bytes() const {
  int64_t sum = 0;
  for (const BlockLayout& block : blocks) sum += block.connected ? block.row_bytes : 0;
  return sum;
}

bool SameNumbers(const Layout& a, const Layout& b) {
  return a.target_shape == b.target_shape && a.value_dtype == b.value_dtype && a.blocks == b.blocks &&
         a.precision == b.precision;
}

absl::StatusOr<Layout> LayoutOf(const v1::JacobianHeader& header) {
  Layout layout;
  layout.target_shape.assign(header.target_shape().begin(), header.target_shape().end());
  const std::optional<DType> value_dtype = DTypeOf(header.value_dtype());
  if (!value_dtype) return BadHeader("the target's value holds no floats");
  layout.value_dtype = *value_dtype;
  if (!ByteCount(layout.target_shape, layout.value_dtype).ok()) {
    return BadHeader(Cat("the target has shape ", ShapeText(layout.target_shape)));
  }
  layout.target_rows = Elements(layout.target_shape);
  layout.rows = {header.rows().begin(), header.rows().count()};
  if (layout.rows.begin < 0 || layout.rows.count < 0 || layout.rows.begin > layout.target_rows ||
      layout.rows.count > layout.target_rows - layout.rows.begin) {
    return BadHeader("its rows are not the target's");
  }
  std::set<std::string> names;
  int64_t row_bytes = 0;
  for (const v1::Block& block : header.blocks()) {
    ASSIGN_OR_RETURN(BlockLayout one, BlockOf(block, layout.target_shape));
    if (!names.insert(one.name).second) return BadHeader(Cat("block '", one.name, "' comes twice"));
    if (__builtin_add_overflow(row_bytes, one.row_bytes, &row_bytes))
      return BadHeader("a row is larger than any memory");
    layout.blocks.push_back(std::move(one));
  }
  if (header.encoding() != v1::ENCODING_DENSE) return BadHeader("its rows are encoded in an unknown way");
  layout.precision = header.precision();
  layout.backend = header.backend();
  layout.device = header.device();
  layout.workers = header.workers();
  layout.notices.assign(header.notices().begin(), header.notices().end());
  return layout;
}

std::string_view NameOf(v1::Precision precision) {
  for (const auto& [value, name] : kPrecisions) {
    if (value == precision) return name;
  }
  return "fp32";
}

v1::Precision PrecisionNamed(std::string_view name) {
  for (const auto& [value, known] : kPrecisions) {
    if (known == name) return value;
  }
  return v1::PRECISION_UNSPECIFIED;
}

}  // namespace jacserve::client
