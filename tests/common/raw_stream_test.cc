// Raw methods and generated stubs are the same wire, over a real server.
#include "common/raw_stream.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/channel.h"
#include "common/chunk_codec.h"
#include "jacserve/v1/worker_service.grpc.pb.h"

namespace jacserve {
namespace {

constexpr int kComputeShard = 2;  // its place in WorkerService
constexpr char kComputeShardMethod[] = "/jacserve.v1.WorkerService/ComputeShard";
constexpr int kChunks = 20;

std::string PayloadOf(int chunk) { return std::string(100'000 + chunk, static_cast<char>('a' + chunk)); }

// Answers with kChunks chunks, as slices.
class RawService : public v1::WorkerService::Service {
 public:
  RawService() {
    MarkMethodStreamed(kComputeShard, RawHandler<v1::ComputeShardRequest>([](grpc::ServerContext*, auto* stream) {
                                        return Answer(*stream);
                                      }).release());
  }

  static grpc::Status Answer(RawStreamer<v1::ComputeShardRequest>& stream) {
    v1::ComputeShardRequest request;
    if (!stream.Read(&request)) return {grpc::StatusCode::INVALID_ARGUMENT, "no request"};
    for (int i = 0; i < kChunks; ++i) {
      auto payload = std::make_shared<const std::string>(PayloadOf(i));
      const auto bytes = std::as_bytes(std::span(*payload));
      const ChunkHeader header{.block = static_cast<uint32_t>(i),
                               .row_begin = request.rows().begin() + i,
                               .row_count = 1,
                               .checksum = Checksum(bytes)};
      if (!stream.Write(EncodeChunk(header, bytes, payload))) return grpc::Status::CANCELLED;
    }
    return {grpc::StatusCode::OUT_OF_RANGE, "rows 7"};
  }
};

// The same answer through generated code.
class PlainService : public v1::WorkerService::Service {
 public:
  grpc::Status ComputeShard(grpc::ServerContext*, const v1::ComputeShardRequest* request,
                            grpc::ServerWriter<v1::JacobianEvent>* stream) override {
    for (int i = 0; i < kChunks; ++i) {
      v1::JacobianEvent event;
      const std::string payload = PayloadOf(i);
      event.mutable_chunk()->set_block(static_cast<uint32_t>(i));
      event.mutable_chunk()->set_row_begin(request->rows().begin() + i);
      event.mutable_chunk()->set_row_count(1);
      event.mutable_chunk()->set_checksum(Checksum(std::as_bytes(std::span(payload))));
      event.mutable_chunk()->set_data(payload);
      stream->Write(event);
    }
    return {grpc::StatusCode::OUT_OF_RANGE, "rows 7"};
  }
};

class RawStreamTest : public testing::Test {
 protected:
  void Start(grpc::Service& service) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    channel_ = *OpenChannel("127.0.0.1:" + std::to_string(port));
  }

  v1::ComputeShardRequest Request() {
    v1::ComputeShardRequest request;
    request.mutable_rows()->set_begin(1000);
    return request;
  }

  void ExpectRawAnswer() {
    grpc::ClientContext context;
    auto reader = OpenRawStream(*channel_, kComputeShardMethod, context, Request());
    grpc::ByteBuffer buffer;
    for (int i = 0; i < kChunks; ++i) {
      ASSERT_TRUE(reader->Read(&buffer)) << i;
      absl::StatusOr<EventView> event = DecodeEvent(buffer);
      ASSERT_TRUE(event.ok()) << event.status();
      EXPECT_EQ(event->chunk.block, static_cast<uint32_t>(i));
      EXPECT_EQ(event->chunk.row_begin, 1000 + i);
      EXPECT_EQ(event->payload_bytes, static_cast<int64_t>(PayloadOf(i).size()));
      EXPECT_TRUE(VerifyChecksum(*event).ok());
    }
    EXPECT_FALSE(reader->Read(&buffer));
    const grpc::Status status = reader->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
    EXPECT_EQ(status.error_message(), "rows 7");
  }

  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(RawStreamTest, GeneratedStubReadsRawMethod) {
  RawService service;
  Start(service);
  grpc::ClientContext context;
  auto stub = v1::WorkerService::NewStub(channel_);
  auto reader = stub->ComputeShard(&context, Request());
  v1::JacobianEvent event;
  for (int i = 0; i < kChunks; ++i) {
    ASSERT_TRUE(reader->Read(&event)) << i;
    EXPECT_EQ(event.chunk().block(), static_cast<uint32_t>(i));
    EXPECT_EQ(event.chunk().row_begin(), 1000 + i);
    EXPECT_TRUE(event.chunk().data() == PayloadOf(i));
  }
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(reader->Finish().error_message(), "rows 7");
  server_->Shutdown();
}

TEST_F(RawStreamTest, RawReaderReadsGeneratedService) {
  PlainService service;
  Start(service);
  ExpectRawAnswer();
  server_->Shutdown();
}

TEST_F(RawStreamTest, RawReaderReadsRawMethod) {
  RawService service;
  Start(service);
  ExpectRawAnswer();
  server_->Shutdown();
}

TEST_F(RawStreamTest, OtherMethodsOfTheServiceStayGenerated) {
  RawService service;
  Start(service);
  grpc::ClientContext context;
  v1::ModelDescription description;
  auto stub = v1::WorkerService::NewStub(channel_);
  EXPECT_EQ(stub->DescribeModel(&context, {}, &description).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  server_->Shutdown();
}

// Says of every message that another comes soon, even where none does for a while.
class PackingService : public v1::WorkerService::Service {
 public:
  PackingService(std::vector<int> sizes, bool ends) : sizes_(std::move(sizes)), ends_(ends) {
    MarkMethodStreamed(kComputeShard, RawHandler<v1::ComputeShardRequest>([this](grpc::ServerContext*, auto* stream) {
                                        v1::ComputeShardRequest request;
                                        stream->Read(&request);
                                        PackingWriter writer(*stream);
                                        for (const int size : sizes_) {
                                          const grpc::Slice slice(std::string(size, 'x'));
                                          writer.Write(grpc::ByteBuffer(&slice, 1), Next::kSoon);
                                        }
                                        if (!ends_) return grpc::Status(grpc::StatusCode::ABORTED, "no more");
                                        const grpc::Slice last("last");
                                        writer.Write(grpc::ByteBuffer(&last, 1), Next::kEnd);
                                        return grpc::Status::OK;
                                      }).release());
  }

 private:
  const std::vector<int> sizes_;
  const bool ends_;
};

TEST_F(RawStreamTest, PackedMessagesAllArriveInOrder) {
  std::vector<int> many(3000, 1000);  // far more than a window, or what gRPC holds back
  for (size_t i = 0; i < many.size(); ++i) many[i] += static_cast<int>(i % 7 == 0 ? 300'000 : i);
  for (const std::vector<int>& sizes : {std::vector<int>{}, {1}, {1, 2, 3}, {1'000'000, 1, 1'000'000, 1}, many}) {
    for (const bool ends : {true, false}) {
      PackingService service(sizes, ends);
      Start(service);
      grpc::ClientContext context;
      auto reader = OpenRawStream(*channel_, kComputeShardMethod, context, Request());
      grpc::ByteBuffer buffer;
      for (const int size : sizes) {
        ASSERT_TRUE(reader->Read(&buffer));
        ASSERT_EQ(buffer.Length(), static_cast<size_t>(size));
      }
      EXPECT_EQ(reader->Read(&buffer), ends);
      EXPECT_FALSE(reader->Read(&buffer));
      EXPECT_EQ(reader->Finish().error_code(), ends ? grpc::StatusCode::OK : grpc::StatusCode::ABORTED);
      server_ = nullptr;  // its threads have ended
    }
  }
}

// Sends without end and counts what the transport has accepted.
class EndlessService : public v1::WorkerService::Service {
 public:
  EndlessService() {
    MarkMethodStreamed(kComputeShard, RawHandler<v1::ComputeShardRequest>([this](grpc::ServerContext*, auto* stream) {
                                        v1::ComputeShardRequest request;
                                        stream->Read(&request);
                                        auto payload = std::make_shared<const std::string>(1 << 20, 'x');
                                        const auto bytes = std::as_bytes(std::span(*payload));
                                        while (stream->Write(EncodeChunk({.row_count = 1}, bytes, payload))) {
                                          accepted_bytes_ += 1 << 20;
                                        }
                                        return grpc::Status::OK;
                                      }).release());
  }
  std::atomic<int64_t> accepted_bytes_ = 0;
};

TEST_F(RawStreamTest, SlowReaderHoldsLittleMemory) {
  EndlessService service;
  Start(service);
  grpc::ClientContext context;
  auto reader = OpenRawStream(*channel_, kComputeShardMethod, context, Request());
  grpc::ByteBuffer buffer;
  int64_t read_bytes = 0;
  int64_t most_ahead = 0;
  for (int i = 0; i < 1060;
       ++i) {  // fast, then slow: the estimate of the first part is what fills memory in the second
    ASSERT_TRUE(reader->Read(&buffer));
    read_bytes += static_cast<int64_t>(buffer.Length());
    if (i > 1000) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    most_ahead = std::max(most_ahead, service.accepted_bytes_ - read_bytes);
  }
  EXPECT_LT(most_ahead, 8 << 20);  // about 2 MiB, and what the sockets hold
  context.TryCancel();
  reader->Finish();
  server_->Shutdown();
}

TEST_F(RawStreamTest, CancelledReaderEndsTheWriter) {
  RawService service;
  Start(service);
  grpc::ClientContext context;
  auto reader = OpenRawStream(*channel_, kComputeShardMethod, context, Request());
  grpc::ByteBuffer buffer;
  ASSERT_TRUE(reader->Read(&buffer));
  context.TryCancel();
  while (reader->Read(&buffer)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  server_->Shutdown();  // returns only when the handler did
}

}  // namespace
}  // namespace jacserve
