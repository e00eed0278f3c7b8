#include "server/service/jacobian_service.h"

#include <set>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/chunk_codec.h"
#include "common/grpc_status.h"
#include "common/metrics.h"
#include "common/status.h"
#include "jacserve/v1/worker_service.grpc.pb.h"

namespace jacserve::server {
namespace {

constexpr int kComputeJacobianIndex = 3;  // ComputeJacobian's place among the methods of the service
constexpr int kMaxDigests = 65'536;
constexpr size_t kMaxPieceBytes = size_t{2} << 20;
constexpr size_t kDescribeAttempts = 2;  // a graph may end so many workers, no more
constexpr auto kDescribeTime = std::chrono::seconds(120);
constexpr auto kCancelPoll = std::chrono::milliseconds(50);

struct RelayMetrics {
  prometheus::Counter& bytes = MetricCounter("relayed_bytes_total", "Bytes of events sent to clients.");
  prometheus::Histogram& latency = MetricHistogram(
      "chunk_latency_seconds", "Time from a chunk's arrival to its being sent on to the client.", DurationBuckets());

  static RelayMetrics& Get() {
    static RelayMetrics metrics;
    return metrics;
  }
};

void CountSent(const EventQueue::Item& item) {
  RelayMetrics& metrics = RelayMetrics::Get();
  metrics.bytes.Increment(static_cast<double>(item.size_bytes));
  if (!item.is_chunk) return;
  metrics.latency.Observe(std::chrono::duration<double>(EventQueue::Clock::now() - item.pushed).count());
}

absl::Status OtherBytes() {
  return absl::InvalidArgumentError("the bytes of an upload are not those that were announced");
}

v1::WorkerState ToProto(WorkerPhase phase) {
  switch (phase) {
    case WorkerPhase::kJoining:
      return v1::WORKER_STATE_JOINING;
    case WorkerPhase::kReady:
      return v1::WORKER_STATE_READY;
    case WorkerPhase::kDraining:
      return v1::WORKER_STATE_DRAINING;
    case WorkerPhase::kGone:
      return v1::WORKER_STATE_GONE;
    case WorkerPhase::kLost:
      return v1::WORKER_STATE_LOST;
  }
  return v1::WORKER_STATE_UNSPECIFIED;
}

}  // namespace

JacobianService::JacobianService(Scheduler& scheduler, BlobStore& store, Access& access)
    : scheduler_(scheduler), store_(store), access_(access) {
  RelayMetrics::Get();  // a scrape shows zeros before the first chunk
  MarkMethodStreamed(kComputeJacobianIndex,
                     RawHandler<v1::ComputeJacobianRequest>([this](grpc::ServerContext* context, EventStream* stream) {
                       AuditedCall audited{.call = "ComputeJacobian", .peer = context->peer()};
                       const absl::Status status = Compute(*context, *stream, audited);
                       access_.Record(audited, status);
                       return FinishRpc("ComputeJacobian", status);
                     }).release());
}

grpc::Status JacobianService::FindMissing(grpc::ServerContext* context, const v1::FindMissingRequest* request,
                                          v1::FindMissingResponse* response) {
  const absl::StatusOr<std::string> caller = access_.Admit(*context, Role::kUpload);
  return FinishRpc("FindMissing", caller.ok() ? Find(*caller, *request, *response) : caller.status());
}

absl::Status JacobianService::Find(const std::string& caller, const v1::FindMissingRequest& request,
                                   v1::FindMissingResponse& response) {
  if (request.sha256_size() > kMaxDigests) {
    return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxDigests, " keys"));
  }
  for (const std::string& digest : request.sha256()) {
    RETURN_IF_ERROR(CheckDigest(digest, "a blob's key"));
    if (!access_.MayName(caller, digest) || !store_.Contains(digest)) response.add_missing(digest);
  }
  return absl::OkStatus();
}

grpc::Status JacobianService::Upload(grpc::ServerContext* context, grpc::ServerReader<v1::UploadRequest>* reader,
                                     v1::UploadResponse* response) {
  AuditedCall audited{.call = "Upload", .peer = context->peer()};
  const absl::Status status = ReceiveBlob(*context, *reader, *response, audited);
  access_.Record(audited, status);
  return FinishRpc("Upload", status);
}

absl::Status JacobianService::ReceiveBlob(grpc::ServerContext& context, grpc::ServerReader<v1::UploadRequest>& reader,
                                          v1::UploadResponse& response, AuditedCall& audited) {
  ASSIGN_OR_RETURN(audited.caller, access_.Admit(context, Role::kUpload));
  const std::string& caller = audited.caller;
  v1::UploadRequest request;
  if (!reader.Read(&request) || !request.has_announcement()) {
    return absl::InvalidArgumentError("an upload begins with its announcement: sha256 and size");
  }
  const std::string digest = request.announcement().sha256();
  RETURN_IF_ERROR(CheckDigest(digest, "the blob's key"));
  audited.sha256 = digest;
  ASSIGN_OR_RETURN(const std::unique_ptr<BlobUpload> upload,
                   store_.BeginUpload(digest, request.announcement().size_bytes()));
  response.set_already_present(upload == nullptr && access_.MayName(caller, digest));
  if (response.already_present()) return absl::OkStatus();
  Sha256 shown;  // of bytes that the store holds, and that the caller has yet to show
  const int64_t announced_bytes = request.announcement().size_bytes();
  while (reader.Read(&request)) {
    if (request.part_case() != v1::UploadRequest::kData) {
      return absl::InvalidArgumentError("after its announcement, an upload holds data only");
    }
    if (request.data().size() > kMaxPieceBytes) {
      return absl::InvalidArgumentError("a piece of an upload holds at most 2 MiB");
    }
    const auto piece = std::as_bytes(std::span(request.data()));
    audited.bytes += static_cast<int64_t>(piece.size());
    if (upload == nullptr) {
      if (audited.bytes > announced_bytes) return OtherBytes();
      shown.Update(piece);
    } else {
      RETURN_IF_ERROR(upload->Append(piece));
    }
  }
  if (upload != nullptr) {
    RETURN_IF_ERROR(upload->Commit());
  } else if (shown.Finish() != digest) {
    return OtherBytes();
  }
  access_.Grant(caller, digest);
  return absl::OkStatus();
}

grpc::Status JacobianService::DescribeModel(grpc::ServerContext* context, const v1::DescribeModelRequest* request,
                                            v1::ModelDescription* response) {
  AuditedCall audited{.call = "DescribeModel", .peer = context->peer()};
  const absl::Status status = Describe(*context, *request, *response, audited);
  access_.Record(audited, status);
  return FinishRpc("DescribeModel", status);
}

absl::Status JacobianService::Describe(grpc::ServerContext& context, const v1::DescribeModelRequest& request,
                                       v1::ModelDescription& response, AuditedCall& audited) {
  ASSIGN_OR_RETURN(audited.caller, access_.Admit(context, Role::kCompute));
  RETURN_IF_ERROR(CheckDigest(request.graph_sha256(), "the graph's key"));
  audited.sha256 = request.graph_sha256();
  BlobPins pins(store_);
  RETURN_IF_ERROR(PinGraph(request.graph_sha256(), NamesOf(audited.caller), pins));
  std::set<WorkerKey> tried;
  while (true) {
    ASSIGN_OR_RETURN(const ReadyWorker worker, scheduler_.AnyWorker(tried, [&] { return context.IsCancelled(); }));
    const std::unique_ptr<grpc::ClientContext> call = grpc::ClientContext::FromServerContext(context);
    if (context.deadline() > std::chrono::system_clock::now() + kDescribeTime) {
      call->set_deadline(std::chrono::system_clock::now() + kDescribeTime);
    }
    const absl::Status status =
        FromGrpc(v1::WorkerService::NewStub(worker.channel)->DescribeModel(call.get(), request, &response));
    if (!absl::IsUnavailable(status)) return status;
    tried.insert(worker.key);
    if (tried.size() >= kDescribeAttempts) {
      return absl::UnavailableError("the workers that were asked to read this graph are busy or were lost; try again");
    }
  }
}

absl::Status JacobianService::Compute(grpc::ServerContext& context, EventStream& stream, AuditedCall& audited) {
  ASSIGN_OR_RETURN(audited.caller, access_.Admit(context, Role::kCompute));
  v1::ComputeJacobianRequest request;
  if (!stream.Read(&request)) return absl::CancelledError("the client is gone");
  ASSIGN_OR_RETURN(JobRequest job, CheckRequest(std::move(request)));
  audited.sha256 = job.spec.graph_sha256();
  ASSIGN_OR_RETURN(std::unique_ptr<BlobPins> pins, PinBlobs(store_, NamesOf(audited.caller), job.spec));
  ASSIGN_OR_RETURN(const Scheduler::Submitted submitted, scheduler_.Submit(std::move(job), std::move(pins)));
  PackingWriter writer(stream);
  absl::Status status = SendEvents(context, writer, submitted);
  if (status.ok()) {
    v1::JacobianEvent event;
    *event.mutable_summary() = scheduler_.SummaryOf(submitted);
    if (!writer.Write(EncodeEvent(event), Next::kEnd)) status = absl::CancelledError("the client is gone");
  }
  audited.bytes = scheduler_.SummaryOf(submitted).payload_bytes();
  scheduler_.Release(submitted);
  return status;
}

// This thread alone writes to the client. While it waits for events it looks out for a client that is gone; while it
// writes, a client that is gone makes the write fail.
absl::Status JacobianService::SendEvents(grpc::ServerContext& context, EventWriter& writer,
                                         const Scheduler::Submitted& submitted) {
  EventQueue& queue = submitted.job->queue();
  while (true) {
    if (context.IsCancelled()) return absl::CancelledError("the call was cancelled");
    if (const std::optional<EventQueue::Item> item = queue.Pop(kCancelPoll)) {
      const Next next = item->followed ? Next::kSoon : Next::kLater;
      if (!writer.Write(item->event, next)) return absl::CancelledError("the client is gone");
      CountSent(*item);
      if (item->is_chunk) submitted.job->AddDelivered(item->payload_bytes);
      continue;
    }
    if (const std::optional<absl::Status> end = queue.EndStatus()) return *end;
  }
}

MayName JacobianService::NamesOf(const std::string& caller) const {
  return [this, caller](const std::string& digest) { return access_.MayName(caller, digest); };
}

grpc::Status JacobianService::ListWorkers(grpc::ServerContext* context, const v1::ListWorkersRequest*,
                                          v1::ListWorkersResponse* response) {
  if (const auto caller = access_.Admit(*context, Role::kCompute); !caller.ok()) {
    return FinishRpc("ListWorkers", caller.status());
  }
  for (const Worker& worker : scheduler_.Workers()) {
    v1::WorkerInfo& info = *response->add_workers();
    info.set_worker_id(worker.details.id);
    info.set_state(ToProto(worker.phase));
    info.set_backend(worker.details.backend);
    info.set_device(worker.details.device);
    info.set_memory_budget_bytes(worker.details.memory_budget_bytes);
    info.set_threads(worker.details.threads);
    info.set_peak_rss_bytes(worker.peak_rss_bytes);
    info.set_rows_done(worker.rows_done);
    info.set_busy(worker.lease != 0);
    if (!worker.details.gpu) continue;
    v1::GpuInfo& gpu = *info.mutable_gpu();
    gpu.set_uuid(worker.details.gpu->uuid);
    gpu.set_compute_capability(worker.details.gpu->compute_capability);
    gpu.set_driver(worker.details.gpu->driver);
    gpu.set_memory_bytes(worker.details.gpu->memory_bytes);
  }
  return FinishRpc("ListWorkers", absl::OkStatus());
}

grpc::Status JacobianService::GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest*,
                                            v1::GetServerInfoResponse* response) {
  if (const auto caller = access_.Admit(*context, Role::kCompute); !caller.ok()) {
    return FinishRpc("GetServerInfo", caller.status());
  }
  const SchedulerCounts counts = scheduler_.Counts();
  const auto uptime = std::chrono::steady_clock::now() - started_;
  response->set_version(JACSERVE_VERSION);
  response->set_uptime_seconds(std::chrono::duration_cast<std::chrono::seconds>(uptime).count());
  response->set_store_bytes(store_.bytes());
  response->set_store_quota_bytes(store_.quota_bytes());
  response->set_jobs_queued(counts.jobs_queued);
  response->set_jobs_running(counts.jobs_running);
  response->set_workers_ready(counts.workers_ready);
  response->set_draining(counts.draining);
  return FinishRpc("GetServerInfo", absl::OkStatus());
}

}  // namespace jacserve::server
