// The gRPC shell of a worker: messages in and out, nothing computed here.
#pragma once

#include <atomic>
#include <string>

#include "common/raw_stream.h"
#include "jacserve/v1/worker_service.grpc.pb.h"
#include "worker/service/chunk_writer.h"
#include "worker/service/shard_runner.h"

namespace jacserve::worker {

class WorkerService final : public v1::WorkerService::Service {
 public:
  // Calls must show `token`, but for those through a socket file.
  WorkerService(std::string worker_id, std::string token, ShardRunner& runner);

  grpc::Status DescribeModel(grpc::ServerContext* context, const v1::DescribeModelRequest* request,
                             v1::ModelDescription* response) override;

  // Calls of Prepare and ComputeShard that run now.
  int running() const { return running_; }

  // From now on no new work is taken: Unavailable.
  void Drain() { draining_ = true; }

 private:
  absl::Status Admit(const grpc::ServerContext& context) const;
  absl::Status Prepare(grpc::ServerContext& context, RawStreamer<v1::PrepareRequest>& stream);
  absl::Status ComputeShard(grpc::ServerContext& context, RawStreamer<v1::ComputeShardRequest>& stream);
  absl::Status SendRows(grpc::ServerContext& context, const v1::JacobianSpec& spec, RowRange rows,
                        const ChunkWriter::WriteMessage& write);

  const std::string worker_id_;
  const std::string token_;
  ShardRunner& runner_;
  std::atomic<int> running_ = 0;
  std::atomic<bool> draining_ = false;
};

}  // namespace jacserve::worker
