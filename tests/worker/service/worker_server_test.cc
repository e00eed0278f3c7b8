// A whole worker over real gRPC with a made-up engine: streams, cancellation, blobs, draining.
#include "worker/service/worker_server.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/chunk_codec.h"
#include "tests/worker/service/scripted_registry.h"
#include "tests/worker/service/tiny_engine.h"

namespace jacserve::worker {
namespace {

using std::chrono::milliseconds;
using State = ScriptedRegistry::State;
using testing::ElementsAre;

class WorkerServerTest : public testing::Test {
 protected:
  WorkerServerTest() {
    registry_.Hold(request_.graph);
    registry_.Hold(request_.x);
  }

  void StartWorker(const std::string& listen = "127.0.0.1:0") {
    WorkerOptions options;
    options.id = "w1";
    options.listen = listen;
    options.coordinator = registry_.address();
    options.runner.memory_budget_bytes = 8 << 20;
    options.make_engine = TinyFactory(script_);
    options.report = TinyReporter();
    absl::StatusOr<std::unique_ptr<WorkerServer>> worker = WorkerServer::Start(options, [](const absl::Status&) {});
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    ASSERT_EQ(registry_.WorkerAddress(), worker_->address());
    stub_ = v1::WorkerService::NewStub(registry_.WorkerChannel());
  }

  struct Shard {
    std::string bytes;
    RowSet done;
    v1::JacobianSummary summary;
    grpc::Status status;
    int events = 0;
  };

  v1::ComputeShardRequest ShardRequest(RowRange rows) {
    v1::ComputeShardRequest request;
    *request.mutable_spec() = request_.spec;
    *request.mutable_rows() = ToProto(rows);
    return request;
  }

  // Reads a shard with generated code; `on_event` may end it.
  Shard Compute(RowRange rows, const std::function<void(grpc::ClientContext&, int)>& on_event = {}) {
    Shard shard;
    grpc::ClientContext context;
    auto reader = stub_->ComputeShard(&context, ShardRequest(rows));
    v1::JacobianEvent event;
    while (reader->Read(&event)) {
      ++shard.events;
      if (event.has_chunk()) {
        EXPECT_EQ(Checksum(std::as_bytes(std::span(event.chunk().data()))), event.chunk().checksum());
        shard.bytes += event.chunk().data();
      } else if (event.has_rows_done()) {
        shard.done.Add(*FromProto(event.rows_done().rows()));
      } else if (event.has_summary()) {
        shard.summary = event.summary();
      }
      if (on_event) on_event(context, shard.events);
    }
    shard.status = reader->Finish();
    return shard;
  }

  grpc::Status Prepare(const v1::JacobianSpec& spec, std::vector<v1::JacobianEvent>& events) {
    grpc::ClientContext context;
    v1::PrepareRequest request;
    *request.mutable_spec() = spec;
    auto reader = stub_->Prepare(&context, request);
    for (v1::JacobianEvent event; reader->Read(&event);) events.push_back(event);
    return reader->Finish();
  }

  ScriptedRegistry registry_;
  TinyScript script_;
  TinyRequest request_;
  std::unique_ptr<WorkerServer> worker_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
};

TEST_F(WorkerServerTest, RegistersWithItsFigures) {
  StartWorker();
  registry_.With([](State& state) {
    const v1::RegisterRequest& registration = state.registrations[0];
    EXPECT_EQ(registration.worker_id(), "w1");
    EXPECT_EQ(registration.version(), JACSERVE_VERSION);
    EXPECT_EQ(registration.backend(), "cpu");
    EXPECT_EQ(registration.memory_budget_bytes(), 8 << 20);
    EXPECT_EQ(registration.threads(), 1);
    EXPECT_EQ(registration.process_id(), getpid());
    EXPECT_FALSE(registration.device().empty());
  });
}

TEST_F(WorkerServerTest, PrepareSendsHeaderThenValueInPieces) {
  script_.rows = 600'000;  // 2.4 MB of value
  StartWorker();
  std::vector<v1::JacobianEvent> events;
  ASSERT_TRUE(Prepare(request_.spec, events).ok());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_THAT(events[0].header().target_shape(), ElementsAre(600'000));
  int64_t elements = 0;
  for (size_t i = 1; i < events.size(); ++i) {
    EXPECT_EQ(events[i].value().element_begin(), elements);
    EXPECT_LE(events[i].value().data().size(), 1u << 20);
    elements += static_cast<int64_t>(events[i].value().data().size()) / 4;
  }
  EXPECT_EQ(elements, 600'000);
}

TEST_F(WorkerServerTest, FewRowsFollowThePreparation) {
  StartWorker();
  v1::PrepareRequest request;
  *request.mutable_spec() = request_.spec;
  *request.mutable_following()->mutable_rows() = ToProto({5, 3});
  const auto kinds = [&](int64_t most_bytes, double most_flops) {
    request.mutable_following()->set_most_bytes(most_bytes);
    request.mutable_following()->set_most_flops(most_flops);
    grpc::ClientContext context;
    auto reader = stub_->Prepare(&context, request);
    std::vector<v1::JacobianEvent::EventCase> kinds;
    std::string bytes;
    for (v1::JacobianEvent event; reader->Read(&event);) {
      kinds.push_back(event.event_case());
      bytes += event.chunk().data();
    }
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_TRUE(bytes.empty() || bytes == TinyRows(script_, {5, 3}));
    return kinds;
  };
  using Event = v1::JacobianEvent;
  const auto all = ElementsAre(Event::kHeader, Event::kValue, Event::kChunk, Event::kRowsDone, Event::kSummary);
  EXPECT_THAT(kinds(3 * 4000, 3 * 12), all);
  EXPECT_THAT(kinds(3 * 4000 - 1, 3 * 12), ElementsAre(Event::kHeader, Event::kValue)) << "a byte too many";
  EXPECT_THAT(kinds(3 * 4000, 3 * 12 - 1), ElementsAre(Event::kHeader, Event::kValue)) << "too much work";
  *request.mutable_following()->mutable_rows() = ToProto({38, 3});
  EXPECT_THAT(kinds(1 << 20, 1e9), ElementsAre(Event::kHeader, Event::kValue)) << "rows that there are not";
}

TEST_F(WorkerServerTest, ShardsCarryTheirRowsAndASummary) {
  StartWorker();
  const Shard shard = Compute({5, 20});
  ASSERT_TRUE(shard.status.ok()) << shard.status.error_message();
  EXPECT_TRUE(shard.bytes == TinyRows(script_, {5, 20}));
  EXPECT_EQ(shard.done.Ranges(), (std::vector<RowRange>{{5, 20}}));
  EXPECT_EQ(shard.summary.rows(), 20);
  EXPECT_EQ(shard.summary.payload_bytes(), static_cast<int64_t>(shard.bytes.size()));
  EXPECT_EQ(shard.summary.shards(), 1);
  std::vector<std::string> phases;
  for (const v1::PhaseSeconds& phase : shard.summary.phases()) phases.push_back(phase.phase());
  EXPECT_THAT(phases, ElementsAre("linearize", "pullback", "rows", "send"));
  ASSERT_EQ(shard.summary.processes_size(), 1);
  EXPECT_EQ(shard.summary.processes(0).role(), "worker");
  EXPECT_EQ(shard.summary.processes(0).name(), "w1");
  EXPECT_GT(shard.summary.processes(0).peak_rss_bytes(), 1 << 20);
}

TEST_F(WorkerServerTest, UnixSocketsWork) {
  StartWorker("unix:" + testing::TempDir() + "worker-test-" + std::to_string(getpid()));
  EXPECT_TRUE(Compute({0, 40}).bytes == TinyRows(script_, {0, 40}));
}

TEST_F(WorkerServerTest, NoRowsIsAnEmptyShard) {
  StartWorker();
  const Shard shard = Compute({7, 0});
  EXPECT_TRUE(shard.status.ok()) << shard.status.error_message();
  EXPECT_EQ(shard.summary.rows(), 0);
  EXPECT_EQ(shard.events, 1);
}

TEST_F(WorkerServerTest, ErrorsReachTheCaller) {
  StartWorker();
  EXPECT_EQ(Compute({39, 2}).status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(Compute({-1, 2}).status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  request_.spec.set_graph_sha256(std::string(32, 'x'));
  EXPECT_EQ(Compute({0, 2}).status.error_code(), grpc::StatusCode::NOT_FOUND);
  grpc::ClientContext context;
  v1::DescribeModelRequest describe;
  v1::ModelDescription description;
  describe.set_graph_sha256("short");
  EXPECT_EQ(stub_->DescribeModel(&context, describe, &description).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(WorkerServerTest, DescribesAModel) {
  StartWorker();
  grpc::ClientContext context;
  v1::DescribeModelRequest describe;
  v1::ModelDescription description;
  describe.set_graph_sha256(request_.spec.graph_sha256());
  ASSERT_TRUE(stub_->DescribeModel(&context, describe, &description).ok());
  EXPECT_EQ(description.operators_size(), 2);
  EXPECT_EQ(description.inputs(0).name(), "x");
}

TEST_F(WorkerServerTest, DamagedBlobIsDataLossAndNotKept) {
  StartWorker();
  registry_.With([](State& state) { state.damage_blobs = true; });
  EXPECT_EQ(Compute({0, 2}).status.error_code(), grpc::StatusCode::DATA_LOSS);
  registry_.With([](State& state) { state.damage_blobs = false; });
  EXPECT_TRUE(Compute({0, 2}).status.ok());
}

TEST_F(WorkerServerTest, BlobOverTheBudgetIsRefusedBeforeItComes) {
  StartWorker();
  request_.x = std::string(5 << 20, 'x');  // of a budget of 8 MiB
  registry_.Hold(request_.x);
  v1::Tensor& tensor = *request_.spec.mutable_inputs(0)->mutable_tensor();
  tensor.set_sha256(Sha256Of(std::as_bytes(std::span(request_.x))));  // the shape still claims 16 bytes
  EXPECT_EQ(Compute({0, 2}).status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(WorkerServerTest, CancelledShardStopsAndTheNextOneRuns) {
  script_.rows = 1'000'000;
  script_.pause_per_slab = milliseconds(1);
  StartWorker();
  const Shard shard = Compute({0, script_.rows}, [](grpc::ClientContext& context, int event) {
    if (event == 5) context.TryCancel();
  });
  EXPECT_EQ(shard.status.error_code(), grpc::StatusCode::CANCELLED);
  Shard next;
  do {  // the worker winds down the call before
    next = Compute({0, 14});
  } while (next.status.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(next.status.ok()) << next.status.error_message();
  EXPECT_EQ(script_.created, 1);
}

TEST_F(WorkerServerTest, SecondShardIsToldBusy) {
  script_.rows = 1'000'000;
  script_.pause_per_slab = milliseconds(1);
  StartWorker();
  grpc::Status second;
  Compute({0, script_.rows}, [&](grpc::ClientContext& context, int event) {
    if (event != 2) return;
    second = Compute({0, 1}).status;
    context.TryCancel();
  });
  EXPECT_EQ(second.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(WorkerServerTest, DrainLetsTheShardEnd) {
  script_.pause_per_slab = milliseconds(20);
  StartWorker();
  std::thread drain;
  const Shard shard = Compute({0, 40}, [&](grpc::ClientContext&, int event) {
    if (event == 1) drain = std::thread([&] { worker_->Drain(std::chrono::minutes(1), [] { return false; }); });
  });
  drain.join();
  EXPECT_TRUE(shard.status.ok()) << shard.status.error_message();
  EXPECT_EQ(shard.done.count(), 40);
  registry_.With([](State& state) { EXPECT_EQ(state.leaves, 1); });
  EXPECT_FALSE(Compute({0, 1}).status.ok());
}

TEST_F(WorkerServerTest, DrainCancelsAShardThatTakesTooLong) {
  script_.rows = 1'000'000;
  script_.pause_per_slab = milliseconds(1);
  for (const bool hurry : {false, true}) {
    StartWorker();
    std::thread drain;
    const Shard shard = Compute({0, script_.rows}, [&](grpc::ClientContext&, int event) {
      if (event != 1) return;
      const auto patience = hurry ? milliseconds(600'000) : milliseconds(30);
      drain = std::thread([&, patience] { worker_->Drain(patience, [hurry] { return hurry; }); });
    });
    drain.join();
    EXPECT_FALSE(shard.status.ok());
    EXPECT_LT(shard.done.count(), script_.rows);
    worker_ = nullptr;
    registry_.With([](State& state) { state.registrations.clear(); });
  }
}

TEST_F(WorkerServerTest, AddressInUseIsUnavailable) {
  StartWorker();
  WorkerOptions options;
  options.coordinator = registry_.address();
  options.listen = worker_->address();
  EXPECT_EQ(WorkerServer::Start(options, {}).status().code(), absl::StatusCode::kUnavailable);
  options.listen = "nowhere";
  EXPECT_EQ(WorkerServer::Start(options, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WorkerServerTest, AnswersItsOwnCoordinatorAlone) {
  StartWorker();
  for (const std::string& token : std::vector<std::string>{"", "guessed", std::string(64, '0')}) {
    stub_ = v1::WorkerService::NewStub(*OpenChannel(worker_->address(), {.token = token}));
    EXPECT_EQ(Compute({0, 1}).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    grpc::ClientContext context;
    v1::ModelDescription description;
    EXPECT_EQ(stub_->DescribeModel(&context, {}, &description).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
}

TEST_F(WorkerServerTest, OthersReachItUnencryptedOnlyWhenSaid) {
  WorkerOptions options;
  options.coordinator = registry_.address();
  options.listen = "0.0.0.0:0";
  const absl::Status refused = WorkerServer::Start(options, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("--insecure"));
}

// The request and answer of a unary call whose classes are not at hand, as raw bytes.
std::string CallRaw(const std::string& address, const std::string& method, const std::string& request) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::Slice slice(request);
  grpc::CompletionQueue queue;
  grpc::ByteBuffer received;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  call->Finish(&received, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  if (!status.ok()) return "error: " + status.error_message();
  grpc::Slice answer;
  EXPECT_TRUE(received.DumpToSingleSlice(&answer).ok());
  return {reinterpret_cast<const char*>(answer.begin()), answer.size()};
}

TEST_F(WorkerServerTest, HealthIsServed) {
  StartWorker();
  const std::string check = "/grpc.health.v1.Health/Check";
  const std::string serving("\x08\x01", 2);  // HealthCheckResponse{status: SERVING}
  EXPECT_EQ(CallRaw(worker_->address(), check, ""), serving);
  const std::string service = "jacserve.v1.WorkerService";
  EXPECT_EQ(CallRaw(worker_->address(), check, std::string("\x0a") + static_cast<char>(service.size()) + service),
            serving);
}

}  // namespace
}  // namespace jacserve::worker
