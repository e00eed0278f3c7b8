#include "tests/cluster/cluster.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <thread>

#include "common/channel.h"
#include "common/chunk_codec.h"
#include "common/digest.h"
#include "common/grpc_status.h"
#include "common/status.h"

namespace jacserve::cluster {
namespace {

constexpr char kGraph[] = "the bytes of a graph; only workers read them";
constexpr size_t kPieceBytes = size_t{1} << 20;

std::string DigestOf(const std::string& bytes) { return Sha256Of(std::as_bytes(std::span(bytes))); }

const char* KindOf(const v1::JacobianEvent& event) {
  switch (event.event_case()) {
    case v1::JacobianEvent::kHeader:
      return "header";
    case v1::JacobianEvent::kValue:
      return "value";
    case v1::JacobianEvent::kChunk:
      return "chunk";
    case v1::JacobianEvent::kRowsDone:
      return "rows_done";
    case v1::JacobianEvent::kSummary:
      return "summary";
    default:
      return "nothing";
  }
}

}  // namespace

server::CoordinatorOptions Cluster::FastOptions() {
  server::CoordinatorOptions options;
  std::string directory = testing::TempDir() + "jacserve-state-XXXXXX";
  JACSERVE_CHECK(mkdtemp(directory.data()) != nullptr);
  options.state_directory = directory;
  options.scheduler.heartbeat_interval = std::chrono::milliseconds(300);
  options.scheduler.limits.no_worker_seconds = 30;
  options.scheduler.limits.turn_seconds = 0;
  options.scheduler.give_back_seconds = 0.2;
  options.scheduler.queue_bytes = int64_t{1} << 20;
  return options;
}

Cluster::Cluster(server::CoordinatorOptions options, std::string token)
    : options_(std::move(options)), token_(std::move(token)) {
  Connect();
}

Cluster::~Cluster() {
  coordinator_.reset();
  workers_.clear();
  std::filesystem::remove_all(options_.state_directory);
}

void Cluster::Connect() {
  auto coordinator = server::Coordinator::Start(options_);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  coordinator_ = *std::move(coordinator);
  ActAs(token_);
  ASSERT_TRUE(Upload(kGraph).ok());
}

void Cluster::ActAs(const std::string& token) {
  client_ = v1::JacobianService::NewStub(*OpenChannel(address(), {.token = token}));
}

void Cluster::RestartCoordinator() {
  coordinator_.reset();
  Connect();
}

ScriptedWorker& Cluster::AddWorker(std::string id, Script script, MadeUpModel model) {
  workers_.push_back(std::make_unique<ScriptedWorker>(id, std::move(model), std::move(script), address()));
  EXPECT_TRUE(WaitFor([&] {
    for (const server::Worker& worker : coordinator_->scheduler().Workers()) {
      if (worker.details.id == id && worker.phase == server::WorkerPhase::kReady) return true;
    }
    return false;
  })) << "worker "
      << id << " is not ready";
  return *workers_.back();
}

std::string Cluster::address() const { return "127.0.0.1:" + std::to_string(coordinator_->port()); }

absl::Status Cluster::Upload(const std::string& bytes, std::optional<int64_t> size, std::string digest) {
  grpc::ClientContext context;
  v1::UploadResponse response;
  const auto writer = client_->Upload(&context, &response);
  v1::UploadRequest request;
  request.mutable_announcement()->set_sha256(digest.empty() ? DigestOf(bytes) : digest);
  request.mutable_announcement()->set_size_bytes(size.value_or(static_cast<int64_t>(bytes.size())));
  bool open = writer->Write(request);
  for (size_t offset = 0; open && offset < bytes.size(); offset += kPieceBytes) {
    request.set_data(bytes.substr(offset, kPieceBytes));
    open = writer->Write(request);
  }
  writer->WritesDone();
  return FromGrpc(writer->Finish());
}

bool Cluster::Holds(const std::string& bytes) {
  grpc::ClientContext context;
  v1::FindMissingRequest request;
  request.add_sha256(DigestOf(bytes));
  v1::FindMissingResponse response;
  EXPECT_TRUE(client_->FindMissing(&context, request, &response).ok());
  return response.missing_size() == 0;
}

v1::ComputeJacobianRequest Cluster::Request(const std::string& name) {
  v1::ComputeJacobianRequest request;
  request.mutable_spec()->set_graph_sha256(DigestOf(kGraph));
  request.mutable_spec()->mutable_target()->set_output(name);
  return request;
}

Received Cluster::Compute(const v1::ComputeJacobianRequest& request) {
  grpc::ClientContext context;
  const auto reader = client_->ComputeJacobian(&context, request);
  Received received;
  v1::JacobianEvent event;
  while (reader->Read(&event)) Take(event, received);
  received.status = FromGrpc(reader->Finish());
  return received;
}

void Cluster::Take(const v1::JacobianEvent& event, Received& received) {
  if (received.order.empty() || received.order.back() != KindOf(event)) received.order.push_back(KindOf(event));
  if (event.has_header()) received.header = event.header();
  if (event.has_value()) received.value += event.value().data();
  if (event.has_summary()) received.summary = event.summary();
  if (event.has_rows_done()) {
    const v1::RowRange& rows = event.rows_done().rows();
    for (int64_t i = 0; i < rows.count(); ++i) received.done.push_back(rows.begin() + i);
  }
  if (!event.has_chunk()) return;
  const v1::Chunk& chunk = event.chunk();
  EXPECT_EQ(chunk.checksum(), Checksum(std::as_bytes(std::span(chunk.data()))));
  EXPECT_EQ(chunk.row_count(), 1);
  std::string& bytes = received.rows[chunk.row_begin()][chunk.block()];
  const size_t end = static_cast<size_t>(chunk.byte_offset()) + chunk.data().size();
  if (bytes.size() >= end) ++received.repeated_chunks;
  if (bytes.size() < end) bytes.resize(end);
  bytes.replace(static_cast<size_t>(chunk.byte_offset()), chunk.data().size(), chunk.data());
}

bool Cluster::WaitFor(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

void ExpectRows(const Received& received, const MadeUpModel& model, const std::vector<RowRange>& ranges) {
  ASSERT_TRUE(received.status.ok()) << received.status;
  RowSet wanted, done;
  for (const RowRange& range : ranges) wanted.Add(range);
  for (int64_t row : received.done) done.Add({row, 1});
  EXPECT_EQ(done.Ranges(), wanted.Ranges());
  ASSERT_TRUE(received.summary.has_value());
  EXPECT_EQ(received.summary->rows(), wanted.count());
  for (const auto& [row, blocks] : received.rows) {
    ASSERT_TRUE(wanted.Contains({row, 1})) << "row " << row << " was not asked for";
    ASSERT_EQ(blocks.size(), 2u) << "row " << row;
    for (const auto& [block, bytes] : blocks) {
      const int64_t columns = block == 0 ? model.wide : model.narrow;
      ASSERT_EQ(bytes.size(), static_cast<size_t>(columns) * sizeof(float)) << "row " << row << " block " << block;
      for (int64_t i = 0; i < columns; ++i) {
        float number = 0;
        std::memcpy(&number, bytes.data() + i * static_cast<int64_t>(sizeof(float)), sizeof(float));
        ASSERT_EQ(number, model.At(static_cast<int>(block), row, i)) << "row " << row << " block " << block;
      }
    }
  }
}

}  // namespace jacserve::cluster
