#include "tests/cluster/scripted_worker.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstring>

#include "common/chunk_codec.h"
#include "common/proto_convert.h"

namespace jacserve::cluster {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kChunkBytes = int64_t{256} << 10;

void AddBlock(v1::JacobianHeader& header, const char* name, int64_t columns, v1::BlockStatus status) {
  v1::Block& block = *header.add_blocks();
  block.set_name(name);
  block.add_shape(columns);
  block.set_dtype(v1::DATA_TYPE_FLOAT32);
  block.set_status(status);
}

}  // namespace

int64_t MadeUpModel::rows() const { return Elements(target_shape); }

float MadeUpModel::At(int block, int64_t row, int64_t column) const {
  return static_cast<float>((row * 131 + column * 7 + block * 1009) % 65'537);
}

ScriptedWorker::ScriptedWorker(std::string id, MadeUpModel model, Script script, const std::string& coordinator)
    : id_(std::move(id)),
      model_(std::move(model)),
      script_(std::move(script)),
      registry_(v1::WorkerRegistry::NewStub(grpc::CreateChannel(coordinator, grpc::InsecureChannelCredentials()))),
      faults_left_(script_.fault == Fault::kNone ? 0 : script_.times),
      busy_left_(script_.busy_times) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port);
  beat_ = std::thread([this] { Beat(); });
  undertaker_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return dead_ || ending_; });
    lock.unlock();
    server_->Shutdown(std::chrono::system_clock::now());
  });
}

ScriptedWorker::~ScriptedWorker() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  undertaker_.join();
  beat_.join();
}

std::vector<ScriptedWorker::ShardCall> ScriptedWorker::shard_calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

bool ScriptedWorker::WaitForCancelledCall(std::chrono::seconds wait) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, wait, [&] { return cancelled_calls_ > 0; });
}

void ScriptedWorker::Leave() {
  grpc::ClientContext context;
  v1::LeaveRequest request;
  request.set_worker_id(id_);
  v1::LeaveResponse response;
  {
    std::lock_guard lock(mutex_);
    ending_ = true;  // no more beats
  }
  registry_->Leave(&context, request, &response);
  changed_.notify_all();
}

void ScriptedWorker::Beat() {
  bool registered = false;
  milliseconds interval(50);
  std::unique_lock lock(mutex_);
  while (!dead_ && !ending_) {
    lock.unlock();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
    if (!registered) {
      v1::RegisterRequest request;
      request.set_worker_id(id_);
      request.set_address(address_);
      request.set_version(JACSERVE_VERSION);
      request.set_backend("scripted");
      request.set_threads(1);
      v1::RegisterResponse response;
      registered = registry_->Register(&context, request, &response).ok();
      if (registered) interval = milliseconds(response.heartbeat_interval_ms() / 2);
    } else {
      v1::HeartbeatRequest request;
      request.set_worker_id(id_);
      request.set_peak_rss_bytes(1000);
      v1::HeartbeatResponse response;
      registered = registry_->Heartbeat(&context, request, &response).error_code() != grpc::StatusCode::NOT_FOUND;
    }
    lock.lock();
    changed_.wait_for(lock, interval, [&] { return dead_ || ending_; });
  }
}

void ScriptedWorker::Die() {
  std::lock_guard lock(mutex_);
  dead_ = true;
  changed_.notify_all();
}

grpc::Status ScriptedWorker::DescribeModel(grpc::ServerContext*, const v1::DescribeModelRequest*,
                                           v1::ModelDescription* response) {
  if (script_.fault == Fault::kDie) {
    Die();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  }
  response->set_producer(id_);
  return grpc::Status::OK;
}

// Whether all rows are asked for and few.
bool ScriptedWorker::MayFollow(const v1::PrepareRequest& request) const {
  const double rows = static_cast<double>(model_.rows());
  return request.has_following() && !request.following().has_rows() &&
         rows * static_cast<double>((model_.wide + model_.narrow) * 4) <=
             static_cast<double>(request.following().most_bytes()) &&
         rows * model_.flops_per_row <= request.following().most_flops();
}

grpc::Status ScriptedWorker::Prepare(grpc::ServerContext* context, const v1::PrepareRequest* request, Writer* writer) {
  if (script_.prepare_status) return *script_.prepare_status;
  v1::JacobianEvent event;
  v1::JacobianHeader& header = *event.mutable_header();
  for (int64_t axis : model_.target_shape) header.add_target_shape(axis);
  header.set_value_dtype(v1::DATA_TYPE_FLOAT32);
  AddBlock(header, "wide", model_.wide, v1::BLOCK_STATUS_CONNECTED);
  AddBlock(header, "lonely", 5, v1::BLOCK_STATUS_UNCONNECTED);
  AddBlock(header, "narrow", model_.narrow, v1::BLOCK_STATUS_CONNECTED);
  header.set_backend("scripted");
  header.set_row_tile(model_.row_tile);
  header.set_flops_per_row(model_.flops_per_row);
  writer->Write(event);
  event.mutable_value()->set_data(std::string(static_cast<size_t>(model_.rows()) * sizeof(float), 'v'));
  writer->Write(event);
  return MayFollow(*request) ? WriteShard(*context, *writer, {0, model_.rows()}) : grpc::Status::OK;
}

bool ScriptedWorker::TakeFault(int64_t row) {
  std::lock_guard lock(mutex_);
  if (row != script_.at_row || faults_left_ == 0) return false;
  --faults_left_;
  return true;
}

bool ScriptedWorker::WriteRow(Writer& writer, int64_t row) {
  for (const int block : {0, 2}) {
    std::vector<float> columns(static_cast<size_t>(block == 0 ? model_.wide : model_.narrow));
    for (size_t i = 0; i < columns.size(); ++i) columns[i] = model_.At(block, row, static_cast<int64_t>(i));
    const std::span<const std::byte> bytes = std::as_bytes(std::span(columns));
    for (size_t offset = 0; offset < bytes.size(); offset += kChunkBytes) {
      const auto piece = bytes.subspan(offset, std::min<size_t>(kChunkBytes, bytes.size() - offset));
      v1::JacobianEvent event;
      v1::Chunk& chunk = *event.mutable_chunk();
      chunk.set_block(static_cast<uint32_t>(block));
      chunk.set_row_begin(row);
      chunk.set_row_count(1);
      chunk.set_byte_offset(static_cast<int64_t>(offset));
      chunk.set_checksum(Checksum(piece));
      chunk.set_data(piece.data(), piece.size());
      if (!writer.Write(event)) return false;
    }
  }
  ++rows_written_;
  return true;
}

bool ScriptedWorker::WriteRowsDone(Writer& writer, RowRange rows) {
  v1::JacobianEvent event;
  *event.mutable_rows_done()->mutable_rows() = ToProto(rows);
  return writer.Write(event);
}

grpc::Status ScriptedWorker::Misbehave(grpc::ServerContext& context, Writer& writer, int64_t row) {
  switch (script_.fault) {
    case Fault::kNone:
    case Fault::kEndEarly:
      return grpc::Status::OK;
    case Fault::kError:
      return grpc::Status(script_.code, "as the script says");
    case Fault::kWrongRows:
      WriteRow(writer, row + 1'000'000);
      return grpc::Status::OK;
    case Fault::kDoneTooEarly:
      WriteRowsDone(writer, {row, 1});
      return grpc::Status::OK;
    case Fault::kDie:
      Die();
      [[fallthrough]];
    case Fault::kHang:
      break;
  }
  while (!context.IsCancelled()) std::this_thread::sleep_for(milliseconds(2));
  std::lock_guard lock(mutex_);
  ++cancelled_calls_;
  changed_.notify_all();
  return grpc::Status::CANCELLED;
}

grpc::Status ScriptedWorker::ComputeShard(grpc::ServerContext* context, const v1::ComputeShardRequest* request,
                                          Writer* writer) {
  const RowRange rows{request->rows().begin(), request->rows().count()};
  {
    std::lock_guard lock(mutex_);
    if (busy_left_ > 0) {
      --busy_left_;
      return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "busy");
    }
    calls_.push_back({request->spec().target().output(), rows});
  }
  return WriteShard(*context, *writer, rows);
}

grpc::Status ScriptedWorker::WriteShard(grpc::ServerContext& context, Writer& writer, RowRange rows) {
  if (script_.before_shard) script_.before_shard(rows);
  for (int64_t i = 0; i < rows.count; ++i) {
    const int64_t row = script_.backwards ? rows.end() - 1 - i : rows.begin + i;
    if (TakeFault(row)) return Misbehave(context, writer, row);
    if (!WriteRow(writer, row) || !WriteRowsDone(writer, {row, 1})) {
      std::lock_guard lock(mutex_);
      ++cancelled_calls_;
      changed_.notify_all();
      return grpc::Status::CANCELLED;
    }
  }
  v1::JacobianEvent event;
  v1::JacobianSummary& summary = *event.mutable_summary();
  v1::PhaseSeconds& phase = *summary.add_phases();
  phase.set_phase("rows");
  phase.set_seconds(1);
  summary.add_processes()->set_peak_rss_bytes(1000);
  writer.Write(event);
  return grpc::Status::OK;
}

}  // namespace jacserve::cluster
