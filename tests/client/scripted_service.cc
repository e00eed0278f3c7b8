#include "tests/client/scripted_service.h"

#include "common/chunk_codec.h"
#include "common/digest.h"
#include "common/proto_convert.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace jacserve::client {

v1::JacobianEvent HeaderEvent(const Layout& layout) {
  v1::JacobianEvent event;
  v1::JacobianHeader& header = *event.mutable_header();
  header.mutable_target_shape()->Assign(layout.target_shape.begin(), layout.target_shape.end());
  header.set_value_dtype(ToProto(layout.value_dtype));
  for (const BlockLayout& block : layout.blocks) {
    v1::Block& out = *header.add_blocks();
    out.set_name(block.name);
    out.mutable_shape()->Assign(block.shape.begin(), block.shape.end());
    out.set_dtype(ToProto(block.dtype));
    out.set_status(block.connected ? v1::BLOCK_STATUS_CONNECTED : v1::BLOCK_STATUS_UNCONNECTED);
  }
  *header.mutable_rows() = ToProto(layout.rows);
  header.set_precision(layout.precision);
  header.set_encoding(v1::ENCODING_DENSE);
  header.set_backend(layout.backend);
  header.set_device(layout.device);
  header.set_row_tile(1);
  header.set_workers(layout.workers);
  header.mutable_notices()->Assign(layout.notices.begin(), layout.notices.end());
  return event;
}

v1::JacobianEvent ValueEvent(const Layout& layout) {
  v1::JacobianEvent event;
  event.mutable_value()->set_data(NumbersText(layout.value_dtype, -1, 0, layout.target_rows));
  return event;
}

v1::JacobianEvent ChunkEvent(const Layout& layout, uint32_t block, RowRange rows, int64_t begin, int64_t size) {
  v1::JacobianEvent event;
  v1::Chunk& chunk = *event.mutable_chunk();
  chunk.set_block(block);
  chunk.set_row_begin(rows.begin);
  chunk.set_row_count(rows.count);
  chunk.set_byte_offset(begin);
  const std::string whole = BlockText(layout, static_cast<int>(block));
  chunk.set_data(whole.substr(rows.begin * layout.blocks[block].row_bytes + begin, size));
  chunk.set_checksum(Checksum(std::as_bytes(std::span<const char>(chunk.data()))));
  return event;
}

v1::JacobianEvent RowsDoneEvent(RowRange rows) {
  v1::JacobianEvent event;
  *event.mutable_rows_done()->mutable_rows() = ToProto(rows);
  return event;
}

v1::JacobianEvent SummaryEvent(int64_t rows) {
  v1::JacobianEvent event;
  v1::JacobianSummary& summary = *event.mutable_summary();
  summary.set_rows(rows);
  summary.set_shards(1);
  v1::PhaseSeconds& phase = *summary.add_phases();
  phase.set_phase("rows");
  phase.set_seconds(0.5);
  v1::ProcessUsage& usage = *summary.add_processes();
  usage.set_role("worker");
  usage.set_name("w0");
  usage.set_peak_rss_bytes(1 << 20);
  return event;
}

void WriteRows(EventWriter& writer, const Layout& layout, RowRange rows, int64_t chunk_bytes) {
  chunk_bytes -= chunk_bytes % 8;
  for (uint32_t block = 0; block < layout.blocks.size(); ++block) {
    const BlockLayout& b = layout.blocks[block];
    if (!b.connected) continue;
    const int64_t slab_bytes = rows.count * b.row_bytes;
    for (int64_t at = 0; at < slab_bytes; at += chunk_bytes) {
      writer.Write(ChunkEvent(layout, block, rows, at, std::min(chunk_bytes, slab_bytes - at)));
    }
  }
  writer.Write(RowsDoneEvent(rows));
}

std::vector<RowRange> RowsOf(const v1::ComputeJacobianRequest& request, RowRange all) {
  if (!request.has_rows()) return {all};
  std::vector<RowRange> ranges = {{request.rows().begin(), request.rows().count()}};
  for (const v1::RowRange& range : request.more_rows()) ranges.push_back({range.begin(), range.count()});
  return ranges;
}

ScriptedService::ScriptedService(Layout layout, std::vector<Stream> script)
    : layout_(std::move(layout)), script_(std::move(script)) {
  Start();
}

ScriptedService::~ScriptedService() { server_->Shutdown(std::chrono::system_clock::now()); }

void ScriptedService::Start() {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port_), grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  JACSERVE_CHECK(server_ != nullptr && port > 0);
  port_ = port;
}

void ScriptedService::Restart(bool forget) {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  if (forget) {
    const std::lock_guard lock(mutex_);
    blobs_.clear();
  }
  Start();
}

std::string ScriptedService::target() const { return "127.0.0.1:" + std::to_string(port_); }

std::vector<v1::ComputeJacobianRequest> ScriptedService::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::map<std::string, std::string> ScriptedService::blobs() const {
  const std::lock_guard lock(mutex_);
  return blobs_;
}

int64_t ScriptedService::uploads() const {
  const std::lock_guard lock(mutex_);
  return uploads_;
}

grpc::Status ScriptedService::FindMissing(grpc::ServerContext*, const v1::FindMissingRequest* request,
                                          v1::FindMissingResponse* response) {
  const std::lock_guard lock(mutex_);
  for (const std::string& sha256 : request->sha256()) {
    if (!blobs_.contains(sha256)) response->add_missing(sha256);
  }
  return grpc::Status::OK;
}

grpc::Status ScriptedService::Upload(grpc::ServerContext*, grpc::ServerReader<v1::UploadRequest>* reader,
                                     v1::UploadResponse*) {
  v1::UploadRequest part;
  if (!reader->Read(&part) || !part.has_announcement()) return {grpc::StatusCode::INVALID_ARGUMENT, "no announcement"};
  if (!upload_status_.ok()) return upload_status_;
  const v1::UploadRequest::Announcement announcement = part.announcement();
  std::string data;
  while (reader->Read(&part)) {
    if (part.data().size() > size_t{2} << 20) return {grpc::StatusCode::INVALID_ARGUMENT, "a piece is too large"};
    data += part.data();
  }
  if (Sha256Of(std::as_bytes(std::span<const char>(data))) != announcement.sha256() ||
      static_cast<int64_t>(data.size()) != announcement.size_bytes()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "another digest or size than announced"};
  }
  const std::lock_guard lock(mutex_);
  blobs_[announcement.sha256()] = data;
  ++uploads_;
  return grpc::Status::OK;
}

grpc::Status ScriptedService::DescribeModel(grpc::ServerContext*, const v1::DescribeModelRequest*,
                                            v1::ModelDescription* model) {
  v1::TensorInfo& input = *model->add_inputs();
  input.set_name("x");
  input.set_dtype(v1::DATA_TYPE_FLOAT32);
  input.add_shape(-1);
  input.add_symbols("batch");
  input.add_shape(4);
  v1::TensorInfo& parameter = *model->add_parameters();
  parameter.set_name("kernel");
  parameter.set_dtype(v1::DATA_TYPE_FLOAT32);
  parameter.add_shape(700);
  parameter.add_shape(3);
  v1::OperatorCount& op = *model->add_operators();
  op.set_op_type("Einsum");
  op.set_count(2);
  model->set_coupling("node 'mean' averages over the batch");
  model->set_producer("test");
  return grpc::Status::OK;
}

grpc::Status ScriptedService::ComputeJacobian(grpc::ServerContext* context, const v1::ComputeJacobianRequest* request,
                                              EventWriter* writer) {
  Stream stream;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(*request);
    if (!blobs_.contains(request->spec().graph_sha256())) return {grpc::StatusCode::NOT_FOUND, "the graph is not here"};
    if (requests_.size() <= script_.size()) stream = script_[requests_.size() - 1];
  }
  if (stream) return stream(*context, *request, *writer);
  writer->Write(HeaderEvent(layout_));
  writer->Write(ValueEvent(layout_));
  int64_t count = 0;
  for (const RowRange& rows : RowsOf(*request, {0, layout_.target_rows})) {
    for (int64_t row = rows.begin; row < rows.end(); ++row, ++count) WriteRows(*writer, layout_, {row, 1});
  }
  writer->Write(SummaryEvent(count));
  return grpc::Status::OK;
}

grpc::Status ScriptedService::ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                                          v1::ListWorkersResponse* response) {
  v1::WorkerInfo& worker = *response->add_workers();
  worker.set_worker_id("w0");
  worker.set_state(v1::WORKER_STATE_READY);
  worker.set_memory_budget_bytes(int64_t{1} << 30);
  return grpc::Status::OK;
}

grpc::Status ScriptedService::GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                                            v1::GetServerInfoResponse* response) {
  response->set_version("1.2.3");
  response->set_workers_ready(2);
  return grpc::Status::OK;
}

}  // namespace jacserve::client
