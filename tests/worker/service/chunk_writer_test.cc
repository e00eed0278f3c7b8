// Slabs become chunks that a bare client accepts, and the engine's memory is free again once they are sent.
#include "worker/service/chunk_writer.h"

#include <gtest/gtest.h>

#include "common/chunk_codec.h"

namespace jacserve::worker {
namespace {

std::string Payload(const EventView& event) {
  std::string bytes;
  for (const grpc::Slice& piece : event.payload) {
    bytes.append(reinterpret_cast<const char*>(piece.begin()), piece.size());
  }
  return bytes;
}

TEST(ChunkWriterTest, ChunksMakeUpTheSlab) {
  for (const int64_t size : {int64_t{4}, kMaxChunkBytes, kMaxChunkBytes + 4, 3 * kMaxChunkBytes + 100}) {
    auto memory = std::make_shared<std::string>(size, '\0');
    for (int64_t i = 0; i < size; ++i) (*memory)[i] = static_cast<char>(i * 7 + i / 256);
    std::string received;
    std::vector<v1::JacobianEvent::EventCase> kinds;
    ChunkWriter writer(2, [&](const grpc::ByteBuffer& message, Next next) {
      EXPECT_LT(message.Length(), 4u << 20);  // gRPC's default limit
      absl::StatusOr<EventView> event = DecodeEvent(message);
      EXPECT_TRUE(event.ok()) << event.status();
      kinds.push_back(event->kind);
      EXPECT_EQ(next, Next::kSoon);  // the last row's report is not the last message
      if (event->kind == v1::JacobianEvent::kChunk) {
        EXPECT_EQ(event->chunk.block, 3u);
        EXPECT_EQ(event->chunk.row_begin, 50);
        EXPECT_EQ(event->chunk.row_count, 2);
        EXPECT_EQ(event->chunk.byte_offset, static_cast<int64_t>(received.size()));
        EXPECT_TRUE(VerifyChecksum(*event).ok());
        received += Payload(*event);
      } else {
        EXPECT_EQ(event->message->rows_done().rows().begin(), 50);
        EXPECT_EQ(event->message->rows_done().rows().count(), 2);
      }
      return true;
    });
    ASSERT_TRUE(writer.OnSlab({3, {50, 2}, std::as_bytes(std::span(*memory)), memory}).ok());
    ASSERT_TRUE(writer.OnRowsDone({50, 2}).ok());
    EXPECT_TRUE(received == *memory) << size;
    EXPECT_EQ(kinds.back(), v1::JacobianEvent::kRowsDone);
    EXPECT_EQ(writer.rows(), 2);
    EXPECT_EQ(writer.payload_bytes(), size);
    EXPECT_EQ(memory.use_count(), 1);  // nothing holds on to it
  }
}

TEST(ChunkWriterTest, NobodyReadingIsCancelled) {
  auto memory = std::make_shared<std::string>(3 * kMaxChunkBytes, 'x');
  int sent = 0;
  ChunkWriter writer(1, [&](const grpc::ByteBuffer&, Next) { return ++sent < 2; });
  EXPECT_EQ(writer.OnSlab({0, {0, 1}, std::as_bytes(std::span(*memory)), memory}).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(sent, 2);
  EXPECT_EQ(writer.OnRowsDone({0, 1}).ok(), false);
  EXPECT_EQ(writer.rows(), 0);
}

}  // namespace
}  // namespace jacserve::worker
