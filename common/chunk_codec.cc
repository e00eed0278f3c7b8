#include "common/chunk_codec.h"

#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h>  // the widest vectors that the processor has: three times the speed
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "common/status.h"
#include "google/protobuf/io/coded_stream.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace jacserve {
namespace {

// Wire types of the protobuf encoding.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr uint32_t Tag(uint32_t field, WireType type) { return field << 3 | type; }

constexpr uint32_t kEventChunkTag = Tag(v1::JacobianEvent::kChunkFieldNumber, kBytes);
constexpr uint32_t kBlockTag = Tag(v1::Chunk::kBlockFieldNumber, kVarint);
constexpr uint32_t kRowBeginTag = Tag(v1::Chunk::kRowBeginFieldNumber, kVarint);
constexpr uint32_t kRowCountTag = Tag(v1::Chunk::kRowCountFieldNumber, kVarint);
constexpr uint32_t kByteOffsetTag = Tag(v1::Chunk::kByteOffsetFieldNumber, kVarint);
constexpr uint32_t kChecksumTag = Tag(v1::Chunk::kChecksumFieldNumber, kFixed64);
constexpr uint32_t kDataTag = Tag(v1::Chunk::kDataFieldNumber, kBytes);

using google::protobuf::io::CodedOutputStream;

uint8_t* WriteVarintField(uint32_t tag, uint64_t value, uint8_t* out) {
  if (value == 0) return out;  // proto3 leaves defaults out
  out = CodedOutputStream::WriteVarint32ToArray(tag, out);
  return CodedOutputStream::WriteVarint64ToArray(value, out);
}

absl::Status Malformed(const char* what) {
  return absl::DataLossError(std::string("a message of the Jacobian stream is damaged: ") + what);
}

// Reads forward through a message that lies in several slices.
class Cursor {
 public:
  explicit Cursor(const std::vector<grpc::Slice>& slices) : slices_(slices) {
    for (const grpc::Slice& slice : slices) remaining_ += slice.size();
    SkipEmptySlices();
  }

  size_t remaining() const { return remaining_; }

  bool ReadByte(uint8_t& byte) {
    if (remaining_ == 0) return false;
    byte = slices_[slice_].begin()[offset_];
    Advance(1);
    return true;
  }

  bool ReadVarint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      uint8_t byte = 0;
      if (!ReadByte(byte)) return false;
      value |= shift < 64 ? uint64_t{byte & 0x7fu} << shift : 0;
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool ReadFixed64(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64; shift += 8) {
      uint8_t byte = 0;
      if (!ReadByte(byte)) return false;
      value |= uint64_t{byte} << shift;
    }
    return true;
  }

  // Passes `size` bytes; with `pieces`, collects them as sub-slices that share the message's memory.
  bool Take(uint64_t size, std::vector<grpc::Slice>* pieces = nullptr) {
    if (size > remaining_) return false;
    while (size > 0) {
      const grpc::Slice& slice = slices_[slice_];
      const size_t step = std::min<uint64_t>(size, slice.size() - offset_);
      if (pieces != nullptr) pieces->push_back(slice.sub(offset_, offset_ + step));
      Advance(step);
      size -= step;
    }
    return true;
  }

  // Passes the value of a field that is not known here.
  bool SkipValue(uint32_t tag) {
    uint64_t value = 0;
    switch (tag & 7) {
      case kVarint:
        return ReadVarint(value);
      case kFixed64:
        return Take(8);
      case kFixed32:
        return Take(4);
      case kBytes:
        return ReadVarint(value) && Take(value);
      default:
        return false;
    }
  }

  bool ReadTag(uint32_t& tag) {
    uint64_t value = 0;
    if (!ReadVarint(value) || value > std::numeric_limits<uint32_t>::max()) return false;
    tag = static_cast<uint32_t>(value);
    return tag >> 3 != 0;
  }

 private:
  void Advance(size_t size) {
    offset_ += size;
    remaining_ -= size;
    if (offset_ == slices_[slice_].size()) {
      ++slice_;
      offset_ = 0;
      SkipEmptySlices();
    }
  }

  void SkipEmptySlices() {
    while (slice_ < slices_.size() && slices_[slice_].size() == 0) ++slice_;
  }

  const std::vector<grpc::Slice>& slices_;
  size_t slice_ = 0;
  size_t offset_ = 0;
  size_t remaining_ = 0;
};

absl::Status ReadChunkField(Cursor& cursor, uint32_t tag, EventView& event) {
  uint64_t value = 0;
  bool ok = true;
  switch (tag) {
    case kBlockTag:
      ok = cursor.ReadVarint(value);
      event.chunk.block = static_cast<uint32_t>(value);
      break;
    case kRowBeginTag:
      ok = cursor.ReadVarint(value);
      event.chunk.row_begin = static_cast<int64_t>(value);
      break;
    case kRowCountTag:
      ok = cursor.ReadVarint(value);
      event.chunk.row_count = static_cast<int64_t>(value);
      break;
    case kByteOffsetTag:
      ok = cursor.ReadVarint(value);
      event.chunk.byte_offset = static_cast<int64_t>(value);
      break;
    case kChecksumTag:
      ok = cursor.ReadFixed64(event.chunk.checksum);
      break;
    default:
      ok = cursor.SkipValue(tag);
  }
  return ok ? absl::OkStatus() : Malformed("a chunk ends within a field");
}

// Figures that no sender makes would overflow arithmetic at the readers.
absl::Status CheckChunk(const EventView& event) {
  const ChunkHeader& chunk = event.chunk;
  int64_t end = 0;
  if (chunk.row_begin < 0 || chunk.row_count < 1 || __builtin_add_overflow(chunk.row_begin, chunk.row_count, &end)) {
    return Malformed("a chunk's range of rows is not one");
  }
  if (chunk.byte_offset < 0 || __builtin_add_overflow(chunk.byte_offset, event.payload_bytes, &end)) {
    return Malformed("a chunk's byte offset is out of range");
  }
  if (event.payload_bytes > kMaxChunkBytes) return Malformed("a chunk is larger than 2 MiB");
  return absl::OkStatus();
}

// The cursor stands behind the tag of JacobianEvent.chunk.
absl::Status ReadChunk(Cursor& cursor, EventView& event) {
  uint64_t size = 0;
  if (!cursor.ReadVarint(size) || size > cursor.remaining()) return Malformed("a chunk is cut short");
  const size_t end = cursor.remaining() - size;  // bytes that remain behind the chunk
  event.kind = v1::JacobianEvent::kChunk;
  while (cursor.remaining() > end) {
    uint32_t tag = 0;
    if (!cursor.ReadTag(tag)) return Malformed("a chunk holds no valid field");
    if (tag != kDataTag) {
      RETURN_IF_ERROR(ReadChunkField(cursor, tag, event));
      continue;
    }
    uint64_t data_size = 0;
    if (!cursor.ReadVarint(data_size) || cursor.remaining() < end || data_size != cursor.remaining() - end) {
      return Malformed("a chunk's data does not end with the chunk");
    }
    JACSERVE_CHECK(cursor.Take(data_size, &event.payload));
    event.payload_bytes = static_cast<int64_t>(data_size);
  }
  if (cursor.remaining() != end) return Malformed("a chunk's fields run over its end");
  return CheckChunk(event);
}

absl::StatusOr<EventView> ParseWhole(const grpc::ByteBuffer& buffer) {
  EventView event;
  event.message = std::make_unique<v1::JacobianEvent>();
  grpc::ByteBuffer copy(buffer);  // reading consumes a reference, never the caller's
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok() || !event.message->ParseFromZeroCopyStream(&reader)) return Malformed("not a valid event");
  event.kind = event.message->event_case();
  if (event.kind == v1::JacobianEvent::kChunk) return Malformed("a chunk shares its message with another event");
  return event;
}

// What a slice keeps alive until gRPC lets go of it, on whichever thread that is. gRPC's count of references puts that
// behind the making; the thread sanitizer must be told, since it cannot see into gRPC.
class KeptAlive {
 public:
  explicit KeptAlive(std::shared_ptr<const void> what) : what_(std::move(what)) {
#ifdef __SANITIZE_THREAD__
    __tsan_release(this);
#endif
  }
  ~KeptAlive() {
#ifdef __SANITIZE_THREAD__
    __tsan_acquire(this);
#endif
  }
  KeptAlive(const KeptAlive&) = delete;
  KeptAlive& operator=(const KeptAlive&) = delete;

 private:
  std::shared_ptr<const void> what_;
};

}  // namespace

uint64_t Checksum(std::span<const std::byte> payload) { return XXH3_64bits(payload.data(), payload.size()); }

grpc::ByteBuffer EncodeChunk(const ChunkHeader& header, std::span<const std::byte> payload,
                             std::shared_ptr<const void> keep_alive) {
  JACSERVE_CHECK(payload.size() <= static_cast<size_t>(kMaxChunkBytes));
  std::array<uint8_t, 80> fields;
  uint8_t* end = fields.data();
  end = WriteVarintField(kBlockTag, header.block, end);
  end = WriteVarintField(kRowBeginTag, static_cast<uint64_t>(header.row_begin), end);
  end = WriteVarintField(kRowCountTag, static_cast<uint64_t>(header.row_count), end);
  end = WriteVarintField(kByteOffsetTag, static_cast<uint64_t>(header.byte_offset), end);
  if (header.checksum != 0) {
    end = CodedOutputStream::WriteVarint32ToArray(kChecksumTag, end);
    end = CodedOutputStream::WriteLittleEndian64ToArray(header.checksum, end);
  }
  end = WriteVarintField(kDataTag, payload.size(), end);
  const size_t fields_size = static_cast<size_t>(end - fields.data());

  std::array<uint8_t, 96> message;
  end = CodedOutputStream::WriteVarint32ToArray(kEventChunkTag, message.data());
  end = CodedOutputStream::WriteVarint64ToArray(fields_size + payload.size(), end);
  end = CodedOutputStream::WriteRawToArray(fields.data(), static_cast<int>(fields_size), end);
  const grpc::Slice head(message.data(), static_cast<size_t>(end - message.data()));
  if (payload.empty()) return grpc::ByteBuffer(&head, 1);

  if (payload.size() <= static_cast<size_t>(kCopiedBytes)) {
    const grpc::Slice slices[] = {head, grpc::Slice(payload.data(), payload.size())};
    return grpc::ByteBuffer(slices, 2);
  }
  const grpc::Slice slices[] = {
      head, grpc::Slice(
                const_cast<std::byte*>(payload.data()), payload.size(),
                [](void* kept) { delete static_cast<KeptAlive*>(kept); }, new KeptAlive(std::move(keep_alive)))};
  return grpc::ByteBuffer(slices, 2);
}

absl::StatusOr<EventView> DecodeEvent(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return Malformed("it has no readable bytes");
  Cursor cursor(slices);
  EventView event;
  while (cursor.remaining() > 0) {
    uint32_t tag = 0;
    if (!cursor.ReadTag(tag)) return Malformed("it holds no valid field");
    if (tag == kEventChunkTag) {
      if (event.kind == v1::JacobianEvent::kChunk) return Malformed("it holds two chunks");
      RETURN_IF_ERROR(ReadChunk(cursor, event));
    } else if (event.kind == v1::JacobianEvent::kChunk) {
      return Malformed("something follows a chunk");
    } else if (tag >> 3 <= v1::JacobianEvent::kSummaryFieldNumber) {
      return ParseWhole(buffer);
    } else if (!cursor.SkipValue(tag)) {
      return Malformed("it ends within a field");
    }
  }
  if (event.kind != v1::JacobianEvent::kChunk) return ParseWhole(buffer);
  return event;
}

absl::Status VerifyChecksum(const EventView& event) {
  return VerifyChecksum(event, [](std::span<const std::byte>) {});
}

absl::Status VerifyChecksum(const EventView& event, absl::FunctionRef<void(std::span<const std::byte>)> look) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  JACSERVE_CHECK(state != nullptr);
  XXH3_64bits_reset(state.get());
  for (const grpc::Slice& piece : event.payload) {
    XXH3_64bits_update(state.get(), piece.begin(), piece.size());
    look(std::as_bytes(std::span(piece.begin(), piece.size())));
  }
  if (XXH3_64bits_digest(state.get()) == event.chunk.checksum) return absl::OkStatus();
  return absl::DataLossError("the checksum of a chunk (block " + std::to_string(event.chunk.block) + ", rows from " +
                             std::to_string(event.chunk.row_begin) + ") does not match its data");
}

grpc::ByteBuffer EncodeEvent(const v1::JacobianEvent& event) {
  grpc::Slice slice(event.ByteSizeLong());
  event.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace jacserve
