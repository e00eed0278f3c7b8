// What clients call on the coordinator. In: uploads, questions, requests for Jacobians. Out: answers; a Jacobian's
// events go from the job's queue to the client as they are.
#pragma once

#include <chrono>

#include "common/raw_stream.h"
#include "jacserve/v1/jacobian_service.grpc.pb.h"
#include "server/access/access.h"
#include "server/schedule/scheduler.h"
#include "server/service/validate.h"
#include "server/store/blob_store.h"

namespace jacserve::server {

class JacobianService final : public v1::JacobianService::Service {
 public:
  // All outlive the service.
  JacobianService(Scheduler& scheduler, BlobStore& store, Access& access);

  grpc::Status FindMissing(grpc::ServerContext* context, const v1::FindMissingRequest* request,
                           v1::FindMissingResponse* response) override;
  grpc::Status Upload(grpc::ServerContext* context, grpc::ServerReader<v1::UploadRequest>* reader,
                      v1::UploadResponse* response) override;
  grpc::Status DescribeModel(grpc::ServerContext* context, const v1::DescribeModelRequest* request,
                             v1::ModelDescription* response) override;
  grpc::Status ListWorkers(grpc::ServerContext* context, const v1::ListWorkersRequest* request,
                           v1::ListWorkersResponse* response) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override;

 private:
  using EventStream = RawStreamer<v1::ComputeJacobianRequest>;
  using EventWriter = PackingWriter<v1::ComputeJacobianRequest>;

  absl::Status Find(const std::string& caller, const v1::FindMissingRequest& request,
                    v1::FindMissingResponse& response);
  // Each fills in what is to be recorded of it.
  absl::Status ReceiveBlob(grpc::ServerContext& context, grpc::ServerReader<v1::UploadRequest>& reader,
                           v1::UploadResponse& response, AuditedCall& audited);
  absl::Status Describe(grpc::ServerContext& context, const v1::DescribeModelRequest& request,
                        v1::ModelDescription& response, AuditedCall& audited);
  absl::Status Compute(grpc::ServerContext& context, EventStream& stream, AuditedCall& audited);
  MayName NamesOf(const std::string& caller) const;
  absl::Status SendEvents(grpc::ServerContext& context, EventWriter& writer, const Scheduler::Submitted& submitted);

  Scheduler& scheduler_;
  BlobStore& store_;
  Access& access_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace jacserve::server
