#include "worker/service/chunk_writer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/chunk_codec.h"
#include "common/proto_convert.h"
#include "common/status.h"
#include "worker/service/worker_metrics.h"

namespace jacserve::worker {

ChunkWriter::ChunkWriter(int64_t rows, WriteMessage write) : all_rows_(rows), write_(std::move(write)) {}

absl::Status ChunkWriter::Send(const grpc::ByteBuffer& message, Next next) {
  return write_(message, next) ? absl::OkStatus() : absl::CancelledError("nobody reads the rows any more");
}

absl::Status ChunkWriter::OnSlab(const Slab& slab) {
  using Clock = std::chrono::steady_clock;
  WorkerMetrics& metrics = WorkerMetrics::Get();
  for (size_t offset = 0; offset < slab.bytes.size(); offset += kMaxChunkBytes) {
    const auto payload = slab.bytes.subspan(offset, std::min<size_t>(kMaxChunkBytes, slab.bytes.size() - offset));
    const ChunkHeader header{.block = slab.block,
                             .row_begin = slab.rows.begin,
                             .row_count = slab.rows.count,
                             .byte_offset = static_cast<int64_t>(offset),
                             .checksum = Checksum(payload)};
    const auto begin = Clock::now();
    RETURN_IF_ERROR(Send(EncodeChunk(header, payload, slab.keep_alive), Next::kSoon));
    metrics.chunk_seconds.Observe(std::chrono::duration<double>(Clock::now() - begin).count());
    metrics.payload_bytes.Increment(static_cast<double>(payload.size()));
    payload_bytes_ += static_cast<int64_t>(payload.size());
  }
  return absl::OkStatus();
}

absl::Status ChunkWriter::OnRowsDone(RowRange rows) {
  v1::JacobianEvent event;
  *event.mutable_rows_done()->mutable_rows() = ToProto(rows);
  const bool last = rows_ + rows.count == all_rows_;
  RETURN_IF_ERROR(Send(EncodeEvent(event), last ? Next::kSoon : Next::kLater));
  rows_ += rows.count;
  WorkerMetrics::Get().rows.Increment(static_cast<double>(rows.count));
  return absl::OkStatus();
}

}  // namespace jacserve::worker
