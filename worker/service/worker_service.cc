#include "worker/service/worker_service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/chunk_codec.h"
#include "common/metrics.h"
#include "common/process.h"
#include "common/proto_convert.h"
#include "common/status.h"
#include "worker/service/chunk_writer.h"
#include "worker/service/worker_metrics.h"

namespace jacserve::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kComputeShardPlace = 2;  // among the methods of v1.WorkerService
constexpr size_t kValuePieceBytes = size_t{1} << 20;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// As when it is busy: the work goes to another, and nobody is to blame.
absl::Status Leaving() { return absl::FailedPreconditionError("this worker is leaving; ask another"); }

class CountWhileAlive {
 public:
  explicit CountWhileAlive(std::atomic<int>& count) : count_(count) { ++count_; }
  ~CountWhileAlive() { --count_; }

 private:
  std::atomic<int>& count_;
};

absl::Status SendPrepared(const PreparedJob& job, grpc::ServerWriter<v1::JacobianEvent>& writer) {
  v1::JacobianEvent event;
  *event.mutable_header() = job.header;
  if (!writer.Write(event)) return absl::CancelledError("nobody reads the header any more");
  const int64_t element_bytes = SizeOf(static_cast<DType>(job.header.value_dtype()));
  for (size_t offset = 0; offset < job.value.size(); offset += kValuePieceBytes) {
    v1::TargetValue& piece = *event.mutable_value();
    piece.set_element_begin(static_cast<int64_t>(offset) / element_bytes);
    piece.set_data(job.value.data() + offset, std::min(kValuePieceBytes, job.value.size() - offset));
    if (!writer.Write(event)) return absl::CancelledError("nobody reads the value any more");
  }
  return absl::OkStatus();
}

}  // namespace

WorkerService::WorkerService(std::string worker_id, ShardRunner& runner)
    : worker_id_(std::move(worker_id)), runner_(runner) {
  MarkMethodStreamed(kComputeShardPlace,
                     RawHandler<v1::ComputeShardRequest>([this](grpc::ServerContext* context, ShardStream* stream) {
                       const auto begin = Clock::now();
                       const absl::Status status = ComputeShard(*context, *stream);
                       WorkerMetrics::Get().shard_seconds.Observe(SecondsSince(begin));
                       return FinishRpc("ComputeShard", status);
                     }).release());
}

grpc::Status WorkerService::DescribeModel(grpc::ServerContext*, const v1::DescribeModelRequest* request,
                                          v1::ModelDescription* response) {
  absl::StatusOr<v1::ModelDescription> description = runner_.Describe(request->graph_sha256());
  if (description.ok()) *response = *std::move(description);
  return FinishRpc("DescribeModel", description.status());
}

grpc::Status WorkerService::Prepare(grpc::ServerContext*, const v1::PrepareRequest* request,
                                    grpc::ServerWriter<v1::JacobianEvent>* writer) {
  const CountWhileAlive counted(running_);
  if (draining_) return FinishRpc("Prepare", Leaving());
  absl::StatusOr<PreparedJob> job = runner_.Prepare(request->spec());
  return FinishRpc("Prepare", job.ok() ? SendPrepared(*job, *writer) : job.status());
}

absl::Status WorkerService::ComputeShard(grpc::ServerContext& context, ShardStream& stream) {
  const CountWhileAlive counted(running_);
  const auto begin = Clock::now();
  v1::ComputeShardRequest request;
  if (!stream.Read(&request)) return absl::InvalidArgumentError("the request cannot be read");
  if (draining_) return Leaving();
  ASSIGN_OR_RETURN(const RowRange rows, FromProto(request.rows()));
  ChunkWriter writer([&stream](const grpc::ByteBuffer& message) { return stream.Write(message); });
  ASSIGN_OR_RETURN(const Effort effort,
                   runner_.Compute(request.spec(), rows, writer, [&context] { return context.IsCancelled(); }));
  return SendSummary(stream, writer.rows(), writer.payload_bytes(), SecondsSince(begin), effort);
}

absl::Status WorkerService::SendSummary(ShardStream& stream, int64_t rows, int64_t payload_bytes, double seconds,
                                        const Effort& effort) {
  v1::JacobianEvent event;
  v1::JacobianSummary& summary = *event.mutable_summary();
  summary.set_rows(rows);
  summary.set_payload_bytes(payload_bytes);
  summary.set_seconds(seconds);
  summary.set_shards(1);
  const std::pair<const char*, double> named[] = {
      {"linearize", effort.linearize}, {"pullback", effort.pullback}, {"rows", effort.rows}, {"send", effort.send}};
  for (const auto& [name, phase_seconds] : named) {
    v1::PhaseSeconds& phase = *summary.add_phases();
    phase.set_phase(name);
    phase.set_seconds(phase_seconds);
  }
  summary.set_underflows(effort.loss.underflows);
  summary.set_overflows(effort.loss.overflows);
  v1::ProcessUsage& usage = *summary.add_processes();
  usage.set_role("worker");
  usage.set_name(worker_id_);
  usage.set_peak_rss_bytes(PeakRssBytes());
  return stream.Write(EncodeEvent(event)) ? absl::OkStatus() : absl::CancelledError("nobody reads the rows any more");
}

}  // namespace jacserve::worker
