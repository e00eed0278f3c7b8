// What workers call on the coordinator. In: registrations, heartbeats, requests for blobs. Out: the scheduler told,
// blobs in pieces.
#pragma once

#include "jacserve/v1/worker_service.grpc.pb.h"
#include "server/access/access.h"
#include "server/schedule/scheduler.h"
#include "server/store/blob_store.h"

namespace jacserve::server {

class RegistryService final : public v1::WorkerRegistry::Service {
 public:
  // All outlive the service.
  RegistryService(Scheduler& scheduler, BlobStore& store, Access& access)
      : scheduler_(scheduler), store_(store), access_(access) {}

  grpc::Status Register(grpc::ServerContext* context, const v1::RegisterRequest* request,
                        v1::RegisterResponse* response) override;
  grpc::Status Heartbeat(grpc::ServerContext* context, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override;
  grpc::Status Leave(grpc::ServerContext* context, const v1::LeaveRequest* request,
                     v1::LeaveResponse* response) override;
  grpc::Status FetchBlob(grpc::ServerContext* context, const v1::FetchBlobRequest* request,
                         grpc::ServerWriter<v1::FetchBlobResponse>* writer) override;

 private:
  absl::Status Join(grpc::ServerContext& context, const v1::RegisterRequest& request, v1::RegisterResponse& response,
                    AuditedCall& audited);

  Scheduler& scheduler_;
  BlobStore& store_;
  Access& access_;
};

}  // namespace jacserve::server
