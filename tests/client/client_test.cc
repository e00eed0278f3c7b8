// The client against a coordinator that fails as scripted, over real gRPC.
#include "client/cpp/client.h"

#include <atomic>
#include <thread>

#include "common/digest.h"
#include "gmock/gmock.h"
#include "tests/client/scripted_service.h"

namespace jacserve::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Keeps every byte that it is given.
class Collector : public RowReceiver {
 public:
  absl::Status OnLayout(const Layout& layout) override {
    ++layouts;
    blocks.resize(layout.blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i].assign(layout.target_rows * layout.blocks[i].row_bytes, '?');
    value.assign(layout.target_rows * SizeOf(layout.value_dtype), '?');
    return absl::OkStatus();
  }
  absl::Status OnValue(int64_t element_begin, std::span<const std::byte> data) override {
    std::memcpy(value.data() + element_begin * 4, data.data(), data.size());
    return absl::OkStatus();
  }
  absl::Status OnChunk(const ChunkData& chunk) override {
    if (!chunk_status.ok()) return chunk_status;
    int64_t at = chunk.byte_begin;
    for (std::span<const std::byte> piece : chunk.pieces) {
      std::memcpy(blocks[chunk.block].data() + at, piece.data(), piece.size());
      at += static_cast<int64_t>(piece.size());
    }
    EXPECT_EQ(at - chunk.byte_begin, chunk.bytes);
    return absl::OkStatus();
  }
  absl::Status OnRowsDone(RowRange rows) override {
    done.Add(rows);
    return absl::OkStatus();
  }

  void ExpectComplete(const Layout& layout) const {
    EXPECT_EQ(layouts, 1);
    EXPECT_EQ(blocks[0], BlockText(layout, 0));
    EXPECT_EQ(blocks[1], BlockText(layout, 1));
    EXPECT_EQ(value, NumbersText(layout.value_dtype, -1, 0, layout.target_rows));
    EXPECT_EQ(done.count(), layout.target_rows);
  }

  int layouts = 0;
  std::vector<std::string> blocks;
  std::string value;
  RowSet done;
  absl::Status chunk_status;
};

const Layout& TheLayout() {
  static const Layout layout = TestLayout();
  return layout;
}

ClientOptions QuickOptions(int tries = 4) {
  ClientOptions options;
  options.retry = {tries, absl::Milliseconds(1), absl::Milliseconds(20)};
  return options;
}

PreparedRequest TestRequest() {
  JacobianRequest request;
  request.graph = OwnedBytes("a graph");
  request.inputs = {{"x", MakeArray<float>({2, 1}, {1, 2})}};
  request.weights = {{"kernel", MakeArray<float>({700, 3}, std::vector<float>(2100, 1))}};
  absl::StatusOr<PreparedRequest> prepared = Prepare(request);
  JACSERVE_CHECK(prepared.ok());
  return *std::move(prepared);
}

std::unique_ptr<Client> ClientOf(const ScriptedService& service, const ClientOptions& options = QuickOptions()) {
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(service.target(), options);
  JACSERVE_CHECK(client.ok());
  return *std::move(client);
}

// A stream that begins well, sends rows [0, done) and then does something else.
ScriptedService::Stream After(int64_t done, std::function<grpc::Status(EventWriter&)> then) {
  return [=](grpc::ServerContext&, const v1::ComputeJacobianRequest&, EventWriter& writer) {
    writer.Write(HeaderEvent(TheLayout()));
    writer.Write(ValueEvent(TheLayout()));
    if (done > 0) WriteRows(writer, TheLayout(), {0, done});
    return then(writer);
  };
}

ScriptedService::Stream Answer(grpc::StatusCode code, const std::string& message) {
  return [=](grpc::ServerContext&, const v1::ComputeJacobianRequest&, EventWriter&) {
    return grpc::Status(code, message);
  };
}

TEST(Client, DeliversEveryRow) {
  ScriptedService service;
  Collector collector;
  const auto result = ClientOf(service)->ComputeJacobian(TestRequest(), {}, collector);
  ASSERT_TRUE(result.ok()) << result.status();
  collector.ExpectComplete(TheLayout());
  EXPECT_EQ(result->resumes, 0);
  EXPECT_EQ(result->payload_bytes, 6 * TheLayout().row_bytes());
  EXPECT_EQ(result->layout.columns(), 2103);
  EXPECT_FALSE(service.requests()[0].has_rows()) << "all rows: none are named";
}

// Each way in which a stream may go wrong after rows 0 and 1 and a part of row 2.
TEST(Client, ContinuesABrokenStreamWithTheMissingRowsOnly) {
  const struct {
    const char* name;
    std::function<grpc::Status(EventWriter&)> then;
  } faults[] = {
      {"cut off by a server that ends", [](EventWriter&) { return grpc::Status::CANCELLED; }},
      {"unavailable", [](EventWriter&) { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "worker lost"); }},
      {"ends without summary", [](EventWriter&) { return grpc::Status::OK; }},
      {"summary too early",
       [](EventWriter& writer) {
         writer.Write(SummaryEvent(6));
         return grpc::Status::OK;
       }},
      {"wrong checksum",
       [](EventWriter& writer) {
         v1::JacobianEvent event = ChunkEvent(TheLayout(), 0, {2, 1}, 0, 800);
         event.mutable_chunk()->mutable_data()->at(100) ^= 1;
         writer.Write(event);
         WriteRows(writer, TheLayout(), {3, 3});
         return grpc::Status::OK;
       }},
      {"done without chunks",
       [](EventWriter& writer) {
         writer.Write(RowsDoneEvent({2, 4}));
         writer.Write(SummaryEvent(6));
         return grpc::Status::OK;
       }},
  };
  for (const auto& fault : faults) {
    SCOPED_TRACE(fault.name);
    ScriptedService service(TheLayout(), {After(2, [&](EventWriter& writer) {
                              writer.Write(ChunkEvent(TheLayout(), 0, {2, 1}, 800, 400));
                              return fault.then(writer);
                            })});
    Collector collector;
    const auto result = ClientOf(service)->ComputeJacobian(TestRequest(), {}, collector);
    ASSERT_TRUE(result.ok()) << result.status();
    collector.ExpectComplete(TheLayout());
    EXPECT_EQ(result->resumes, 1);
    ASSERT_THAT(service.requests(), SizeIs(2));
    EXPECT_THAT(RowsOf(service.requests()[1], {0, 6}), ElementsAre(RowRange{2, 4}));
    EXPECT_EQ(service.requests()[1].spec().SerializeAsString(), service.requests()[0].spec().SerializeAsString());
  }
}

TEST(Client, RefusesChunksThatDoNotFitAndAsksAgain) {
  const auto changed = [](auto change) {
    v1::JacobianEvent event = ChunkEvent(TheLayout(), 0, {2, 1}, 0, 800);
    change(*event.mutable_chunk());
    return event;
  };
  const v1::JacobianEvent chunks[] = {
      changed([](v1::Chunk& chunk) { chunk.set_block(3); }),
      changed([](v1::Chunk& chunk) { chunk.set_block(2); }),  // not connected
      changed([](v1::Chunk& chunk) { chunk.set_row_begin(6); }),
      changed([](v1::Chunk& chunk) { chunk.set_row_begin(-1); }),
      changed([](v1::Chunk& chunk) { chunk.set_row_count(5); }),
      changed([](v1::Chunk& chunk) { chunk.set_row_count(0); }),
      changed([](v1::Chunk& chunk) { chunk.set_row_count(INT64_MAX); }),
      changed([](v1::Chunk& chunk) { chunk.set_byte_offset(8000); }),
      changed([](v1::Chunk& chunk) { chunk.set_byte_offset(-4); }),
      changed([](v1::Chunk& chunk) { chunk.set_byte_offset(INT64_MAX - 8); }),
      changed([](v1::Chunk& chunk) { chunk.set_byte_offset(2); }),
      RowsDoneEvent({4, 3}),
      RowsDoneEvent({-1, 1}),
      HeaderEvent(TheLayout()),
  };
  for (const v1::JacobianEvent& chunk : chunks) {
    SCOPED_TRACE(chunk.ShortDebugString().substr(0, 100));
    ScriptedService service(TheLayout(), {After(0, [&](EventWriter& writer) {
                              writer.Write(chunk);
                              writer.Write(SummaryEvent(6));
                              return grpc::Status::OK;
                            })});
    Collector collector;
    const auto result = ClientOf(service)->ComputeJacobian(TestRequest(), {}, collector);
    ASSERT_TRUE(result.ok()) << result.status();
    collector.ExpectComplete(TheLayout());
    EXPECT_THAT(service.requests(), SizeIs(2));
  }
}

TEST(Client, PassesTheServersErrorsOnWithoutTryingAgain) {
  for (grpc::StatusCode code :
       {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::OUT_OF_RANGE, grpc::StatusCode::UNIMPLEMENTED,
        grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::DATA_LOSS, grpc::StatusCode::INTERNAL}) {
    ScriptedService service(TheLayout(), {Answer(code, "in the server's words")});
    Collector collector;
    const auto result = ClientOf(service)->ComputeJacobian(TestRequest(), {}, collector);
    EXPECT_EQ(static_cast<int>(result.status().code()), static_cast<int>(code));
    EXPECT_EQ(std::string(result.status().message()), "in the server's words");
    EXPECT_THAT(service.requests(), SizeIs(1));
  }
}

TEST(Client, GivesUpAfterTriesWithoutProgress) {
  ScriptedService service(TheLayout(),
                          std::vector<ScriptedService::Stream>(10, Answer(grpc::StatusCode::UNAVAILABLE, "no worker")));
  Collector collector;
  const auto result = ClientOf(service, QuickOptions(3))->ComputeJacobian(TestRequest(), {}, collector);
  EXPECT_TRUE(absl::IsUnavailable(result.status()));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("no worker"));
  EXPECT_THAT(service.requests(), SizeIs(3));
}

TEST(Client, ProgressStartsTheCountOfTriesAnew) {
  std::vector<ScriptedService::Stream> script;
  for (int64_t row = 0; row < 6; ++row) {
    script.push_back([=](grpc::ServerContext&, const v1::ComputeJacobianRequest&, EventWriter& writer) {
      writer.Write(HeaderEvent(TheLayout()));
      writer.Write(ValueEvent(TheLayout()));
      WriteRows(writer, TheLayout(), {5 - row, 1});
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "again");
    });
  }
  ScriptedService service(TheLayout(), script);
  Collector collector;
  const auto result = ClientOf(service, QuickOptions(2))->ComputeJacobian(TestRequest(), {}, collector);
  ASSERT_TRUE(result.ok()) << result.status();
  collector.ExpectComplete(TheLayout());
  EXPECT_EQ(result->resumes, 6);
  EXPECT_THAT(RowsOf(service.requests()[6], {0, 6}), ElementsAre(RowRange{0, 0})) << "the summary alone is missing";
}

TEST(Client, DoesNotMixAnswersOfDifferentLayouts) {
  Layout other = TheLayout();
  other.blocks[1].shape = {4};
  other.blocks[1].row_bytes = 16;
  ScriptedService service(other,
                          {After(2, [](EventWriter&) { return grpc::Status(grpc::StatusCode::UNAVAILABLE, ""); })});
  Collector collector;
  const auto result = ClientOf(service)->ComputeJacobian(TestRequest(), {}, collector);
  EXPECT_TRUE(absl::IsFailedPrecondition(result.status())) << result.status();
}

TEST(Client, TheReceiversErrorEndsTheCallAtOnce) {
  ScriptedService service;
  Collector collector;
  collector.chunk_status = absl::ResourceExhaustedError("disk full");
  const auto result = ClientOf(service)->ComputeJacobian(TestRequest(), {}, collector);
  EXPECT_EQ(result.status(), collector.chunk_status);
  collector.chunk_status = absl::DataLossError("of the receiver's own");
  EXPECT_EQ(ClientOf(service)->ComputeJacobian(TestRequest(), {}, collector).status(), collector.chunk_status);
  EXPECT_THAT(service.requests(), SizeIs(2)) << "neither is tried again";
}

TEST(Client, AsksOnlyForRowsThatAreNotDone) {
  ScriptedService service;
  Collector collector;
  RowsWanted wanted{RowRange{0, 6}, {}};
  wanted.done.Add({1, 1});
  wanted.done.Add({3, 2});
  const auto result = ClientOf(service)->ComputeJacobian(TestRequest(), wanted, collector);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(RowsOf(service.requests()[0], {0, 6}), ElementsAre(RowRange{0, 1}, RowRange{2, 1}, RowRange{5, 1}));
  EXPECT_THAT(collector.done.Ranges(), ElementsAre(RowRange{0, 1}, RowRange{2, 1}, RowRange{5, 1}));
}

TEST(Client, ARangeBeyondTheTargetIsAnError) {
  ScriptedService service;
  Collector collector;
  const auto result = ClientOf(service)->ComputeJacobian(TestRequest(), {RowRange{4, 3}, {}}, collector);
  EXPECT_TRUE(absl::IsOutOfRange(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("rows 4:7"));
}

TEST(Client, StopsWhenAsked) {
  std::stop_source stop;
  ClientOptions options = QuickOptions();
  options.stop = stop.get_token();
  std::atomic<bool> server_saw_it = false;
  ScriptedService service(TheLayout(),
                          {[&](grpc::ServerContext& context, const v1::ComputeJacobianRequest&, EventWriter& writer) {
                            writer.Write(HeaderEvent(TheLayout()));
                            stop.request_stop();
                            while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                            server_saw_it = true;
                            return grpc::Status::CANCELLED;
                          }});
  Collector collector;
  const auto result = ClientOf(service, options)->ComputeJacobian(TestRequest(), {}, collector);
  EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
  EXPECT_THAT(service.requests(), SizeIs(1));
  while (!server_saw_it) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(Client, SurvivesAServerThatComesBackWithoutItsUploads) {
  ScriptedService* running = nullptr;
  std::jthread restarter;
  const auto crash = [&](grpc::ServerContext& context, const v1::ComputeJacobianRequest&, EventWriter& writer) {
    writer.Write(HeaderEvent(TheLayout()));
    writer.Write(ValueEvent(TheLayout()));
    WriteRows(writer, TheLayout(), {0, 3});
    restarter = std::jthread([&] { running->Restart(/*forget=*/true); });
    while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return grpc::Status::CANCELLED;
  };
  ScriptedService service(TheLayout(), {crash});
  running = &service;
  ClientOptions options = QuickOptions(200);
  Collector collector;
  const auto result = ClientOf(service, options)->ComputeJacobian(TestRequest(), {}, collector);
  restarter.join();
  ASSERT_TRUE(result.ok()) << result.status();
  collector.ExpectComplete(TheLayout());
  EXPECT_THAT(RowsOf(service.requests().back(), {0, 6}), ElementsAre(RowRange{3, 3}));
  EXPECT_THAT(service.blobs(), SizeIs(3));
}

TEST(Client, UploadsWhatIsMissingInPieces) {
  ScriptedService service;
  const auto client = ClientOf(service);
  const FileBytes large = OwnedBytes(std::string((size_t{5} << 20) + 3, 'l'));
  const FileBytes small = OwnedBytes("s");
  const FileBytes empty = OwnedBytes("");
  std::vector<Blob> blobs;
  for (const FileBytes& bytes : {large, small, empty})
    blobs.push_back({Sha256Of(bytes.bytes), "blob", bytes.bytes, {}});
  auto report = client->UploadMissing(blobs);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->blobs, 3);
  EXPECT_EQ(service.blobs().at(blobs[0].sha256).size(), (size_t{5} << 20) + 3);
  report = client->UploadMissing(blobs);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->blobs, 0);
  EXPECT_EQ(report->total_bytes, (5 << 20) + 4);
  EXPECT_EQ(service.uploads(), 3);
}

TEST(Client, AFailedUploadNamesWhatWasUploaded) {
  ScriptedService service;
  service.set_upload_status({grpc::StatusCode::RESOURCE_EXHAUSTED, "over quota"});
  Collector collector;
  const auto result = ClientOf(service)->ComputeJacobian(TestRequest(), {}, collector);
  EXPECT_TRUE(absl::IsResourceExhausted(result.status()));
  EXPECT_EQ(std::string(result.status().message()), "uploading graph: over quota");
  EXPECT_THAT(service.requests(), IsEmpty());
}

TEST(Client, SaysThatNobodyAnswers) {
  int port = 0;
  {
    const ScriptedService gone;
    port = gone.port();
  }
  ClientOptions options = QuickOptions();
  options.connect_timeout = absl::Milliseconds(300);
  const std::string target = "127.0.0.1:" + std::to_string(port);
  const absl::Status status = Client::Connect(target, options).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(target));
}

}  // namespace
}  // namespace jacserve::client
