// Chunks as slices are plain protobuf messages, and any bytes at all are read without harm.
#include "common/chunk_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace jacserve {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string Flat(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

std::string Payload(const EventView& event) {
  std::string bytes;
  for (const grpc::Slice& piece : event.payload) {
    bytes.append(reinterpret_cast<const char*>(piece.begin()), piece.size());
  }
  return bytes;
}

grpc::ByteBuffer BufferOf(const std::vector<std::string>& pieces) {
  std::vector<grpc::Slice> slices;
  for (const std::string& piece : pieces) slices.emplace_back(piece);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// The bytes cut at random places, empty pieces among them.
grpc::ByteBuffer RandomlySplit(const std::string& bytes, std::mt19937& random) {
  std::vector<size_t> cuts = {0, bytes.size()};
  const size_t count = random() % 12;
  for (size_t i = 0; i < count; ++i) cuts.push_back(random() % (bytes.size() + 1));
  // Most cuts fall into the header, which is where they could do harm.
  for (size_t i = 0; i < count; ++i) cuts.push_back(std::min<size_t>(random() % 40, bytes.size()));
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::string> pieces;
  for (size_t i = 1; i < cuts.size(); ++i) pieces.push_back(bytes.substr(cuts[i - 1], cuts[i] - cuts[i - 1]));
  return BufferOf(pieces);
}

struct Case {
  ChunkHeader header;
  size_t payload_size;
};

const std::vector<Case>& Cases() {
  static const auto* cases = new std::vector<Case>{
      {{.block = 0, .row_begin = 0, .row_count = 1, .byte_offset = 0, .checksum = 0}, 0},
      {{.block = 0, .row_begin = 0, .row_count = 1, .byte_offset = 0, .checksum = 7}, 1},
      {{.block = 9, .row_begin = 3135, .row_count = 1, .byte_offset = 4'000'000, .checksum = ~uint64_t{0}}, 12'345},
      {{.block = std::numeric_limits<uint32_t>::max(),
        .row_begin = int64_t{1} << 60,
        .row_count = int64_t{1} << 61,
        .byte_offset = int64_t{1} << 62,
        .checksum = 0x0102030405060708},
       127},
      {{.block = 1, .row_begin = 128, .row_count = 64, .byte_offset = 1, .checksum = 1}, kMaxChunkBytes}};
  return *cases;
}

std::string PayloadOf(size_t size) {
  std::string payload(size, '\0');
  std::mt19937 random(static_cast<uint32_t>(size));
  for (char& c : payload) c = static_cast<char>(random());
  return payload;
}

v1::JacobianEvent MessageOf(const ChunkHeader& header, const std::string& payload) {
  v1::JacobianEvent event;
  v1::Chunk& chunk = *event.mutable_chunk();
  chunk.set_block(header.block);
  chunk.set_row_begin(header.row_begin);
  chunk.set_row_count(header.row_count);
  chunk.set_byte_offset(header.byte_offset);
  chunk.set_checksum(header.checksum);
  chunk.set_data(payload);
  return event;
}

TEST(ChunkCodecTest, EncodedChunkIsThePlainMessageByteForByte) {
  for (const Case& c : Cases()) {
    const std::string payload = PayloadOf(c.payload_size);
    const std::string bytes = Flat(EncodeChunk(c.header, Bytes(payload), nullptr));
    EXPECT_TRUE(bytes == MessageOf(c.header, payload).SerializeAsString()) << c.payload_size;

    v1::JacobianEvent parsed;
    ASSERT_TRUE(parsed.ParseFromString(bytes));
    EXPECT_EQ(parsed.chunk().block(), c.header.block);
    EXPECT_EQ(parsed.chunk().row_begin(), c.header.row_begin);
    EXPECT_EQ(parsed.chunk().row_count(), c.header.row_count);
    EXPECT_EQ(parsed.chunk().byte_offset(), c.header.byte_offset);
    EXPECT_EQ(parsed.chunk().checksum(), c.header.checksum);
    EXPECT_TRUE(parsed.chunk().data() == payload);
  }
}

TEST(ChunkCodecTest, PlainMessageDecodesWhereverItIsCut) {
  std::mt19937 random(3);
  for (const Case& c : Cases()) {
    const std::string payload = PayloadOf(c.payload_size);
    const std::string bytes = MessageOf(c.header, payload).SerializeAsString();
    for (int round = 0; round < 50; ++round) {
      absl::StatusOr<EventView> event = DecodeEvent(RandomlySplit(bytes, random));
      ASSERT_TRUE(event.ok()) << event.status();
      ASSERT_EQ(event->kind, v1::JacobianEvent::kChunk);
      EXPECT_EQ(event->chunk, c.header);
      EXPECT_EQ(event->payload_bytes, static_cast<int64_t>(payload.size()));
      ASSERT_TRUE(Payload(*event) == payload);
    }
  }
}

TEST(ChunkCodecTest, LargePayloadIsNeverCopied) {
  const std::string payload = PayloadOf(100'000);
  const grpc::ByteBuffer sent = EncodeChunk({.row_count = 1}, Bytes(payload), nullptr);
  absl::StatusOr<EventView> event = DecodeEvent(sent);
  ASSERT_TRUE(event.ok());
  ASSERT_EQ(event->payload.size(), 1u);
  EXPECT_EQ(reinterpret_cast<const char*>(event->payload[0].begin()), payload.data());
}

TEST(ChunkCodecTest, SmallPayloadHoldsNoMemory) {
  auto owner = std::make_shared<const std::string>(PayloadOf(kCopiedBytes));
  const grpc::ByteBuffer sent = EncodeChunk({.row_count = 1}, Bytes(*owner), owner);
  EXPECT_EQ(owner.use_count(), 1);
  owner.reset();
  absl::StatusOr<EventView> event = DecodeEvent(sent);
  ASSERT_TRUE(event.ok());
  EXPECT_EQ(event->payload_bytes, kCopiedBytes);
}

TEST(ChunkCodecTest, KeepAliveGoesWithTheLastReader) {
  auto owner = std::make_shared<const std::string>(PayloadOf(kCopiedBytes + 1));
  std::weak_ptr<const std::string> watch = owner;
  auto sent = std::make_unique<grpc::ByteBuffer>(EncodeChunk({.row_count = 1}, Bytes(*owner), owner));
  owner.reset();
  absl::StatusOr<EventView> event = DecodeEvent(*sent);
  ASSERT_TRUE(event.ok());
  sent.reset();
  EXPECT_FALSE(watch.expired());
  event->payload.clear();
  EXPECT_TRUE(watch.expired());
}

TEST(ChunkCodecTest, ChecksumTellsDamage) {
  const std::string payload = PayloadOf(70'000);
  std::mt19937 random(4);
  std::string bytes = MessageOf({.row_count = 1, .checksum = Checksum(Bytes(payload))}, payload).SerializeAsString();
  absl::StatusOr<EventView> whole = DecodeEvent(RandomlySplit(bytes, random));
  ASSERT_TRUE(whole.ok());
  EXPECT_TRUE(VerifyChecksum(*whole).ok());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  absl::StatusOr<EventView> damaged = DecodeEvent(BufferOf({bytes}));
  ASSERT_TRUE(damaged.ok());
  EXPECT_EQ(VerifyChecksum(*damaged).code(), absl::StatusCode::kDataLoss);
}

TEST(ChunkCodecTest, OtherEventsArriveWhole) {
  std::mt19937 random(5);
  v1::JacobianEvent events[4];
  events[0].mutable_header()->add_target_shape(56);
  events[0].mutable_header()->add_blocks()->set_name("dense/kernel");
  events[1].mutable_value()->set_data(PayloadOf(9000));
  events[2].mutable_rows_done()->mutable_rows()->set_count(4);
  events[3].mutable_summary()->set_rows(3136);
  for (const v1::JacobianEvent& sent : events) {
    EXPECT_EQ(Flat(EncodeEvent(sent)), sent.SerializeAsString());
    absl::StatusOr<EventView> event = DecodeEvent(RandomlySplit(sent.SerializeAsString(), random));
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(event->kind, sent.event_case());
    ASSERT_TRUE(event->message != nullptr);
    EXPECT_EQ(event->message->SerializeAsString(), sent.SerializeAsString());
  }
}

TEST(ChunkCodecTest, UnknownFieldsAreSkipped) {
  const std::string payload = "payload";
  // Fields 200 (varint), 201 (bytes), 202 (fixed64) and 203 (fixed32), as a later version might send them.
  const std::string unknown = std::string("\xc0\x0c\x05", 3) + std::string("\xca\x0c\x02hi", 5) +
                              std::string("\xd1\x0c\1\2\3\4\5\6\7\x08", 10) + std::string("\xdd\x0c\1\2\3\4", 6);
  const std::string chunk = MessageOf({.block = 3, .row_count = 2, .checksum = 8}, payload).chunk().SerializeAsString();
  const std::string inner = unknown + chunk;
  const std::string bytes = unknown + std::string("\x1a") + static_cast<char>(inner.size()) + inner;
  v1::JacobianEvent parsed;
  ASSERT_TRUE(parsed.ParseFromString(bytes));
  absl::StatusOr<EventView> event = DecodeEvent(BufferOf({bytes}));
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->chunk, (ChunkHeader{.block = 3, .row_count = 2, .checksum = 8}));
  EXPECT_EQ(Payload(*event), payload);
}

TEST(ChunkCodecTest, EmptyMessageIsAnEventThatIsNotSet) {
  absl::StatusOr<EventView> event = DecodeEvent(BufferOf({""}));
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->kind, v1::JacobianEvent::EVENT_NOT_SET);
}

TEST(ChunkCodecTest, EveryTruncationIsDataLoss) {
  const std::string payload = PayloadOf(300);
  const ChunkHeader header{.block = 300, .row_begin = 1000, .row_count = 5, .byte_offset = 77, .checksum = 99};
  const std::string bytes = MessageOf(header, payload).SerializeAsString();
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeEvent(BufferOf({bytes.substr(0, size)})).status().code(), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_EQ(DecodeEvent(BufferOf({bytes + "x"})).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeEvent(BufferOf({bytes + bytes})).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ChunkCodecTest, FiguresThatWouldOverflowAreDataLoss) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  for (const ChunkHeader& header :
       {ChunkHeader{.row_begin = -1, .row_count = 1}, ChunkHeader{.row_count = 0}, ChunkHeader{.row_count = -4},
        ChunkHeader{.row_begin = kHuge, .row_count = 1}, ChunkHeader{.row_count = 1, .byte_offset = -1},
        ChunkHeader{.row_count = 1, .byte_offset = kHuge}}) {
    const std::string bytes = MessageOf(header, "x").SerializeAsString();
    EXPECT_EQ(DecodeEvent(BufferOf({bytes})).status().code(), absl::StatusCode::kDataLoss);
  }
  const std::string large = MessageOf({.row_count = 1}, std::string(kMaxChunkBytes + 1, 'x')).SerializeAsString();
  EXPECT_EQ(DecodeEvent(BufferOf({large})).status().code(), absl::StatusCode::kDataLoss);
}

// Whatever the decoder accepts, protobuf accepts with the same fields; the rest is DataLoss.
TEST(ChunkCodecTest, DamagedBytesAgreeWithProtobufOrAreDataLoss) {
  std::mt19937 random(6);
  const std::string good =
      MessageOf({.block = 2, .row_begin = 3, .row_count = 4, .byte_offset = 5, .checksum = 6}, PayloadOf(40))
          .SerializeAsString();
  int accepted = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::string bytes = good;
    if (round % 3 == 0) {
      bytes.resize(random() % 60);
      for (char& c : bytes) c = static_cast<char>(random());
    } else {
      for (unsigned flips = 1 + random() % 3; flips > 0; --flips) {
        bytes[random() % std::min<size_t>(bytes.size(), 30)] ^= static_cast<char>(1 << random() % 8);
      }
    }
    absl::StatusOr<EventView> event = DecodeEvent(RandomlySplit(bytes, random));
    if (!event.ok()) {
      ASSERT_EQ(event.status().code(), absl::StatusCode::kDataLoss);
      continue;
    }
    v1::JacobianEvent parsed;
    ASSERT_TRUE(parsed.ParseFromString(bytes));
    ASSERT_EQ(event->kind, parsed.event_case());
    if (event->kind != v1::JacobianEvent::kChunk) continue;
    ++accepted;
    ASSERT_EQ(event->chunk.block, parsed.chunk().block());
    ASSERT_EQ(event->chunk.row_begin, parsed.chunk().row_begin());
    ASSERT_EQ(event->chunk.row_count, parsed.chunk().row_count());
    ASSERT_EQ(event->chunk.byte_offset, parsed.chunk().byte_offset());
    ASSERT_EQ(event->chunk.checksum, parsed.chunk().checksum());
    ASSERT_EQ(Payload(*event), parsed.chunk().data());
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace jacserve
