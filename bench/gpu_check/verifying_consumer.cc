#include "bench/gpu_check/verifying_consumer.h"

#include <utility>

#include "common/status.h"

namespace jacserve::bench {
namespace {

client::Layout LayoutOf(const worker::JacobianLayout& layout, RowRange rows) {
  client::Layout result;
  result.target_shape = layout.target_shape;
  result.target_rows = layout.rows;
  result.value_dtype = layout.dtype;
  result.rows = rows;
  for (const worker::BlockInfo& block : layout.blocks) {
    result.blocks.push_back({block.name, block.shape, layout.dtype, block.connected, block.row_bytes});
  }
  return result;
}

}  // namespace

VerifyingConsumer::VerifyingConsumer(client::ExpectedFile expected, const worker::JacobianLayout& layout)
    : layout_(layout), verifier_(std::move(expected), [](const std::string&) { return true; }) {}

absl::StatusOr<std::unique_ptr<VerifyingConsumer>> VerifyingConsumer::Make(const worker::JacobianLayout& layout,
                                                                           RowRange rows, const std::string& folder) {
  ASSIGN_OR_RETURN(client::ExpectedFile expected,
                   client::ExpectedFile::Open(folder + "/expected.npz", {"x", "second.x"}));
  std::unique_ptr<VerifyingConsumer> consumer(new VerifyingConsumer(std::move(expected), layout));
  RETURN_IF_ERROR(consumer->verifier_.OnLayout(LayoutOf(layout, rows)));
  return consumer;
}

absl::Status VerifyingConsumer::OnSlab(const worker::Slab& slab) {
  const int64_t row_bytes = layout_.blocks[slab.block].row_bytes;
  return verifier_.OnChunk({.block = slab.block,
                            .byte_begin = slab.rows.begin * row_bytes,
                            .bytes = static_cast<int64_t>(slab.bytes.size()),
                            .pieces = client::Pieces(&slab.bytes, 1)});
}

}  // namespace jacserve::bench
