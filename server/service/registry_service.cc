#include "server/service/registry_service.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "common/metrics.h"
#include "common/status.h"
#include "server/service/validate.h"

namespace jacserve::server {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;

absl::Status SendBlob(BlobStore& store, const std::string& digest, grpc::ServerWriter<v1::FetchBlobResponse>& writer) {
  RETURN_IF_ERROR(CheckDigest(digest, "the blob's key"));
  ASSIGN_OR_RETURN(const BlobReader blob, store.OpenBlob(digest));
  int64_t offset = 0;
  do {
    v1::FetchBlobResponse piece;
    if (offset == 0) piece.set_size_bytes(blob.size_bytes());
    std::string& data = *piece.mutable_data();
    data.resize(static_cast<size_t>(std::min(kPieceBytes, blob.size_bytes() - offset)));
    ASSIGN_OR_RETURN(const int64_t read, blob.ReadAt(offset, std::as_writable_bytes(std::span(data))));
    offset += read;
    if (!writer.Write(piece)) return absl::CancelledError("the worker is gone");
  } while (offset < blob.size_bytes());
  return absl::OkStatus();
}

}  // namespace

grpc::Status RegistryService::Register(grpc::ServerContext* context, const v1::RegisterRequest* request,
                                       v1::RegisterResponse* response) {
  AuditedCall audited{.call = "Register", .peer = context->peer()};
  const absl::Status status = Join(*context, *request, *response, audited);
  access_.Record(audited, status);
  return FinishRpc("Register", status);
}

absl::Status RegistryService::Join(grpc::ServerContext& context, const v1::RegisterRequest& request,
                                   v1::RegisterResponse& response, AuditedCall& audited) {
  ASSIGN_OR_RETURN(audited.caller, access_.Admit(context, Role::kWorker));
  ASSIGN_OR_RETURN(const WorkerDetails details, CheckRegistration(request));
  audited.worker = details.id;
  response.set_heartbeat_interval_ms(scheduler_.heartbeat_interval().count());
  return scheduler_.Register(details);
}

grpc::Status RegistryService::Heartbeat(grpc::ServerContext* context, const v1::HeartbeatRequest* request,
                                        v1::HeartbeatResponse* response) {
  if (const auto caller = access_.Admit(*context, Role::kWorker); !caller.ok()) {
    return FinishRpc("Heartbeat", caller.status());
  }
  response->set_drain(request->draining());
  const bool known = scheduler_.Heartbeat(request->worker_id(), request->draining(), request->peak_rss_bytes());
  return FinishRpc("Heartbeat", known ? absl::OkStatus() : absl::NotFoundError("this worker is not known; register"));
}

grpc::Status RegistryService::Leave(grpc::ServerContext* context, const v1::LeaveRequest* request, v1::LeaveResponse*) {
  if (const auto caller = access_.Admit(*context, Role::kWorker); !caller.ok()) {
    return FinishRpc("Leave", caller.status());
  }
  scheduler_.Leave(request->worker_id());
  return FinishRpc("Leave", absl::OkStatus());
}

grpc::Status RegistryService::FetchBlob(grpc::ServerContext* context, const v1::FetchBlobRequest* request,
                                        grpc::ServerWriter<v1::FetchBlobResponse>* writer) {
  const auto caller = access_.Admit(*context, Role::kWorker);
  return FinishRpc("FetchBlob", caller.ok() ? SendBlob(store_, request->sha256(), *writer) : caller.status());
}

}  // namespace jacserve::server
