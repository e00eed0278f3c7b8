#include "server/relay/relay.h"

#include <chrono>
#include <utility>

#include "common/chunk_codec.h"
#include "common/grpc_status.h"
#include "common/proto_convert.h"
#include "common/shape.h"
#include "common/status.h"

namespace jacserve::server {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr auto kPushWait = std::chrono::milliseconds(100);  // between looks at whether the work is still wanted

RelayResult Failed(absl::Status status) {
  const RelayEnd end = absl::IsFailedPrecondition(status) ? RelayEnd::kBusy : RelayEnd::kFailed;
  return {end, std::move(status), std::nullopt};
}
RelayResult Ended(RelayEnd end) { return {end, absl::OkStatus(), std::nullopt}; }

absl::Status Broken(const char* what) {
  return absl::DataLossError(std::string("a worker's stream is not as it should be: ") + what);
}

// Queues messages of one stream and knows how long the client has held it up.
class Pusher {
 public:
  Pusher(EventQueue& queue, RelayLease& lease) : queue_(queue), lease_(lease) {}

  // None: queued. Otherwise why not.
  std::optional<RelayEnd> Push(grpc::ByteBuffer event, std::optional<int64_t> payload_bytes = std::nullopt) {
    EventQueue::Item item;
    item.size_bytes = static_cast<int64_t>(event.Length());
    item.event = std::move(event);
    item.is_chunk = payload_bytes.has_value();
    item.payload_bytes = payload_bytes.value_or(0);
    while (true) {
      const auto before = EventQueue::Clock::now();
      const EventQueue::PushResult result = queue_.Push(item, kPushWait);
      blocked_ += EventQueue::Clock::now() - before;
      if (result == EventQueue::PushResult::kPushed) return std::nullopt;
      if (result == EventQueue::PushResult::kClosed || !lease_.Alive()) return RelayEnd::kStopped;
      if (lease_.GiveBack(blocked_.count())) return RelayEnd::kGivenBack;
    }
  }

 private:
  EventQueue& queue_;
  RelayLease& lease_;
  Seconds blocked_{0};
};

// The bytes of a shard as they come, against what its rows must have.
class ShardBytes {
 public:
  ShardBytes(RowRange rows, const RowLayout& layout) : rows_(rows), layout_(layout) {}

  absl::Status OnChunk(const EventView& event) {
    const ChunkHeader& chunk = event.chunk;
    if (chunk.block >= layout_.block_row_bytes.size()) return Broken("a chunk of a block that is not in the header");
    if (chunk.row_begin < rows_.begin || chunk.row_count > rows_.end() - chunk.row_begin) {
      return Broken("a chunk of rows that were not asked for");
    }
    const int64_t slab_bytes = chunk.row_count * layout_.block_row_bytes[chunk.block];
    if (chunk.byte_offset > slab_bytes || event.payload_bytes > slab_bytes - chunk.byte_offset) {
      return Broken("a chunk that reaches past its rows");
    }
    bytes_ += event.payload_bytes;
    return absl::OkStatus();
  }

  absl::Status OnRowsDone(RowRange rows) {
    if (rows.begin < rows_.begin || rows.count > rows_.end() - rows.begin) {
      return Broken("rows reported that were not asked for");
    }
    done_.Add(rows);
    return done_.count() * layout_.row_bytes <= bytes_ ? absl::OkStatus() : Broken("rows reported before their chunks");
  }

 private:
  const RowRange rows_;
  const RowLayout& layout_;
  RowSet done_;
  int64_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<RowLayout> LayoutOf(const v1::JacobianHeader& header) {
  RowLayout layout;
  ASSIGN_OR_RETURN(int64_t rows, ElementCount({header.target_shape().data(), size_t(header.target_shape_size())}));
  for (const v1::Block& block : header.blocks()) {
    int64_t bytes = 0;
    if (block.status() == v1::BLOCK_STATUS_CONNECTED) {
      const DType dtype = block.dtype() == v1::DATA_TYPE_FLOAT64 ? DType::kFloat64 : DType::kFloat32;
      ASSIGN_OR_RETURN(bytes, ByteCount({block.shape().data(), size_t(block.shape_size())}, dtype));
    }
    layout.block_row_bytes.push_back(bytes);
    if (__builtin_add_overflow(layout.row_bytes, bytes, &layout.row_bytes)) {
      return absl::InvalidArgumentError("a row of the Jacobian is too large");
    }
  }
  int64_t total = 0;
  if (__builtin_mul_overflow(layout.row_bytes, rows, &total)) {
    return absl::InvalidArgumentError("the Jacobian has more bytes than can be counted; ask for fewer parameters");
  }
  return layout;
}

RelayResult RelayRows(RawReader& reader, EventQueue& queue, RowRange rows, const RowLayout& layout, RelayLease& lease,
                      grpc::ByteBuffer first) {
  Pusher pusher(queue, lease);
  ShardBytes bytes(rows, layout);
  std::optional<v1::JacobianSummary> summary;
  grpc::ByteBuffer buffer = std::move(first);
  while (buffer.Valid() || reader.Read(&buffer)) {
    if (!lease.Alive()) return Ended(RelayEnd::kStopped);
    absl::StatusOr<EventView> event = DecodeEvent(buffer);
    if (!event.ok()) return Failed(event.status());
    if (event->kind == v1::JacobianEvent::kChunk) {
      if (absl::Status status = bytes.OnChunk(*event); !status.ok()) return Failed(status);
      event->payload.clear();  // the queue alone holds the message now
      if (auto end = pusher.Push(std::move(buffer), event->payload_bytes)) return Ended(*end);
    } else if (event->kind == v1::JacobianEvent::kRowsDone) {
      const absl::StatusOr<RowRange> done = FromProto(event->message->rows_done().rows());
      if (!done.ok()) return Failed(done.status());
      if (absl::Status status = bytes.OnRowsDone(*done); !status.ok()) return Failed(status);
      if (auto end = pusher.Push(std::move(buffer))) return Ended(*end);
      const absl::StatusOr<bool> alive = lease.OnRowsDone(*done);
      if (!alive.ok()) return Failed(alive.status());
      if (!*alive) return Ended(RelayEnd::kStopped);
    } else if (event->kind == v1::JacobianEvent::kSummary) {
      summary = event->message->summary();
    }
    buffer.Clear();
  }
  if (grpc::Status status = reader.Finish(); !status.ok()) return Failed(FromGrpc(status));
  return {RelayEnd::kComplete, absl::OkStatus(), std::move(summary)};
}

RelayResult RelayPrepare(RawReader& reader, EventQueue& queue, HeaderSink& sink, RelayLease& lease) {
  Pusher pusher(queue, lease);
  bool have_header = false;
  grpc::ByteBuffer buffer;
  while (reader.Read(&buffer)) {
    if (!lease.Alive()) return Ended(RelayEnd::kStopped);
    absl::StatusOr<EventView> event = DecodeEvent(buffer);
    if (!event.ok()) return Failed(event.status());
    if (event->kind == v1::JacobianEvent::kHeader) {
      if (have_header) return Failed(Broken("a second header"));
      have_header = true;
      absl::StatusOr<std::optional<v1::JacobianEvent>> header = sink.OnHeader(event->message->header());
      if (!header.ok()) return {RelayEnd::kRejected, header.status(), std::nullopt};
      if (header->has_value()) {
        if (auto end = pusher.Push(EncodeEvent(**header))) return Ended(*end);
      }
    } else if (event->kind == v1::JacobianEvent::kValue) {
      if (!have_header) return Failed(Broken("a value before the header"));
      if (auto end = pusher.Push(std::move(buffer))) return Ended(*end);
    } else {
      if (!have_header) return Failed(Broken("rows before the header"));
      return {RelayEnd::kRowsFollow, absl::OkStatus(), std::nullopt, std::move(buffer)};
    }
    buffer.Clear();
  }
  if (grpc::Status status = reader.Finish(); !status.ok()) return Failed(FromGrpc(status));
  if (!have_header) return Failed(Broken("no header"));
  return Ended(RelayEnd::kComplete);
}

}  // namespace jacserve::server
