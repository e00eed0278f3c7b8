#include "worker/service/worker_service.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "common/chunk_codec.h"
#include "common/metrics.h"
#include "common/process.h"
#include "common/proto_convert.h"
#include "common/status.h"
#include "common/token.h"
#include "worker/service/chunk_writer.h"
#include "worker/service/worker_metrics.h"

namespace jacserve::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPreparePlace = 1, kComputeShardPlace = 2;  // among the methods of v1.WorkerService
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

absl::Status SendPrepared(const PreparedJob& job, bool rows_follow, const ChunkWriter::WriteMessage& write) {
  v1::JacobianEvent event;
  *event.mutable_header() = job.header;
  if (!write(EncodeEvent(event), Next::kSoon)) return absl::CancelledError("nobody reads the header any more");
  const int64_t element_bytes = SizeOf(static_cast<DType>(job.header.value_dtype()));
  for (size_t offset = 0; offset < job.value.size(); offset += kValuePieceBytes) {
    v1::TargetValue& piece = *event.mutable_value();
    piece.set_element_begin(static_cast<int64_t>(offset) / element_bytes);
    piece.set_data(job.value.data() + offset, std::min(kValuePieceBytes, job.value.size() - offset));
    const bool last = job.value.size() - offset <= kValuePieceBytes;
    if (!write(EncodeEvent(event), last && !rows_follow ? Next::kEnd : Next::kSoon)) {
      return absl::CancelledError("nobody reads the value any more");
    }
  }
  return absl::OkStatus();
}

// None: all that was asked for is the preparation.
std::optional<RowRange> RowsToFollow(const v1::PrepareRequest& request, const PreparedJob& job) {
  if (!request.has_following()) return std::nullopt;
  const v1::FollowingRows& following = request.following();
  RowRange rows{0, job.header.rows().count()};
  if (following.has_rows()) {
    const absl::StatusOr<RowRange> asked = FromProto(following.rows());
    if (!asked.ok() || asked->end() > rows.count) return std::nullopt;  // the coordinator says so
    rows = *asked;
  }
  if (rows.count == 0 || job.row_bytes > following.most_bytes() / rows.count) return std::nullopt;
  if (job.header.flops_per_row() * static_cast<double>(rows.count) > following.most_flops()) return std::nullopt;
  return rows;
}

template <class Request>
ChunkWriter::WriteMessage To(RawStreamer<Request>& stream) {
  return [writer = PackingWriter<Request>(stream)](const grpc::ByteBuffer& message, Next next) mutable {
    return writer.Write(message, next);
  };
}

v1::JacobianEvent SummaryEvent(const ChunkWriter& writer, double seconds, const Effort& effort) {
  v1::JacobianEvent event;
  v1::JacobianSummary& summary = *event.mutable_summary();
  summary.set_rows(writer.rows());
  summary.set_payload_bytes(writer.payload_bytes());
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
  return event;
}

}  // namespace

WorkerService::WorkerService(std::string worker_id, std::string token, ShardRunner& runner)
    : worker_id_(std::move(worker_id)), token_(std::move(token)), runner_(runner) {
  MarkMethodStreamed(kPreparePlace, RawHandler<v1::PrepareRequest>([this](grpc::ServerContext* context,
                                                                          RawStreamer<v1::PrepareRequest>* stream) {
                                      return FinishRpc("Prepare", Prepare(*context, *stream));
                                    }).release());
  MarkMethodStreamed(kComputeShardPlace,
                     RawHandler<v1::ComputeShardRequest>([this](grpc::ServerContext* context,
                                                                RawStreamer<v1::ComputeShardRequest>* stream) {
                       return FinishRpc("ComputeShard", ComputeShard(*context, *stream));
                     }).release());
}

absl::Status WorkerService::Admit(const grpc::ServerContext& context) const {
  if (CameThroughSocketFile(context) || SameSecret(TokenOf(context), token_)) return absl::OkStatus();
  return absl::UnauthenticatedError("a worker answers its own coordinator alone");
}

grpc::Status WorkerService::DescribeModel(grpc::ServerContext* context, const v1::DescribeModelRequest* request,
                                          v1::ModelDescription* response) {
  if (const absl::Status admitted = Admit(*context); !admitted.ok()) return FinishRpc("DescribeModel", admitted);
  absl::StatusOr<v1::ModelDescription> description = runner_.Describe(request->graph_sha256());
  if (description.ok()) *response = *std::move(description);
  return FinishRpc("DescribeModel", description.status());
}

absl::Status WorkerService::Prepare(grpc::ServerContext& context, RawStreamer<v1::PrepareRequest>& stream) {
  RETURN_IF_ERROR(Admit(context));
  const CountWhileAlive counted(running_);
  v1::PrepareRequest request;
  if (!stream.Read(&request)) return absl::InvalidArgumentError("the request cannot be read");
  if (draining_) return Leaving();
  ASSIGN_OR_RETURN(const PreparedJob job, runner_.Prepare(request.spec()));
  const std::optional<RowRange> rows = RowsToFollow(request, job);
  const ChunkWriter::WriteMessage write = To(stream);
  RETURN_IF_ERROR(SendPrepared(job, rows.has_value(), write));
  return rows ? SendRows(context, request.spec(), *rows, write) : absl::OkStatus();
}

absl::Status WorkerService::ComputeShard(grpc::ServerContext& context, RawStreamer<v1::ComputeShardRequest>& stream) {
  RETURN_IF_ERROR(Admit(context));
  const CountWhileAlive counted(running_);
  v1::ComputeShardRequest request;
  if (!stream.Read(&request)) return absl::InvalidArgumentError("the request cannot be read");
  if (draining_) return Leaving();
  ASSIGN_OR_RETURN(const RowRange rows, FromProto(request.rows()));
  return SendRows(context, request.spec(), rows, To(stream));
}

absl::Status WorkerService::SendRows(grpc::ServerContext& context, const v1::JacobianSpec& spec, RowRange rows,
                                     const ChunkWriter::WriteMessage& write) {
  const auto begin = Clock::now();
  ChunkWriter writer(rows.count, write);
  const absl::StatusOr<Effort> effort =
      runner_.Compute(spec, rows, writer, [&context] { return context.IsCancelled(); });
  WorkerMetrics::Get().shard_seconds.Observe(SecondsSince(begin));
  if (!effort.ok()) return effort.status();
  v1::JacobianEvent event = SummaryEvent(writer, SecondsSince(begin), *effort);
  v1::ProcessUsage& usage = *event.mutable_summary()->add_processes();
  usage.set_role("worker");
  usage.set_name(worker_id_);
  usage.set_peak_rss_bytes(PeakRssBytes());
  return write(EncodeEvent(event), Next::kEnd) ? absl::OkStatus()
                                               : absl::CancelledError("nobody reads the rows any more");
}

}  // namespace jacserve::worker
