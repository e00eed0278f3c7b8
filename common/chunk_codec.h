// A chunk event as two slices, written and read without touching a large payload.
// Out: bytes that are exactly the protobuf message jacserve.v1.JacobianEvent{chunk}. In: such a message as it arrived.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "jacserve/v1/types.pb.h"

namespace jacserve {

constexpr int64_t kMaxChunkBytes = int64_t{2} << 20;

struct ChunkHeader {
  uint32_t block = 0;
  int64_t row_begin = 0;
  int64_t row_count = 0;
  int64_t byte_offset = 0;  // within the slab of these rows
  uint64_t checksum = 0;    // XXH3-64 of the payload

  friend bool operator==(const ChunkHeader&, const ChunkHeader&) = default;
};

// XXH3-64.
uint64_t Checksum(std::span<const std::byte> payload);

// The message: an encoded header, then `payload`, which is sent from where it lies; `keep_alive` is released when gRPC
// no longer needs it. Up to kCopiedBytes are copied, so that memory is not held by messages that wait to be sent.
// payload.size() <= kMaxChunkBytes.
constexpr int64_t kCopiedBytes = int64_t{16} << 10;
grpc::ByteBuffer EncodeChunk(const ChunkHeader& header, std::span<const std::byte> payload,
                             std::shared_ptr<const void> keep_alive);

// What an incoming event is, as far as can be told without reading a payload.
struct EventView {
  v1::JacobianEvent::EventCase kind = v1::JacobianEvent::EVENT_NOT_SET;
  ChunkHeader chunk;                           // kind == kChunk
  std::vector<grpc::Slice> payload;            // kind == kChunk: the data, in pieces, sharing the message's memory
  int64_t payload_bytes = 0;                   // kind == kChunk
  std::unique_ptr<v1::JacobianEvent> message;  // any other kind, parsed
};

// DataLoss: not a JacobianEvent. Accepts any valid protobuf encoding of one whose chunk holds `data` last.
absl::StatusOr<EventView> DecodeEvent(const grpc::ByteBuffer& buffer);

// DataLoss: the payload's XXH3-64 is not the header's checksum.
absl::Status VerifyChecksum(const EventView& event);

// The same; each piece goes to `look` while it is still in the processor's nearest memory.
absl::Status VerifyChecksum(const EventView& event, absl::FunctionRef<void(std::span<const std::byte>)> look);

// Any other event, as bytes.
grpc::ByteBuffer EncodeEvent(const v1::JacobianEvent& event);

}  // namespace jacserve
