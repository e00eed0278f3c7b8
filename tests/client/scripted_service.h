// A coordinator that answers as its script says. Real gRPC on a real port; no workers behind it.
// In: a layout, and what each stream is to do. Out: streams of TestNumber rows with the faults asked for.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "grpcpp/server.h"
#include "jacserve/v1/jacobian_service.grpc.pb.h"
#include "tests/client/test_jacobian.h"

namespace jacserve::client {

using EventWriter = grpc::ServerWriter<v1::JacobianEvent>;

v1::JacobianEvent HeaderEvent(const Layout& layout);
v1::JacobianEvent ValueEvent(const Layout& layout);
// Bytes [begin, begin + size) of the slab of `rows`.
v1::JacobianEvent ChunkEvent(const Layout& layout, uint32_t block, RowRange rows, int64_t begin, int64_t size);
v1::JacobianEvent RowsDoneEvent(RowRange rows);
v1::JacobianEvent SummaryEvent(int64_t rows);

// Every connected block's chunks of these rows, then that they are done.
void WriteRows(EventWriter& writer, const Layout& layout, RowRange rows, int64_t chunk_bytes = 5000);

// Ranges of a request, `all` when it names none.
std::vector<RowRange> RowsOf(const v1::ComputeJacobianRequest& request, RowRange all);

class ScriptedService final : public v1::JacobianService::Service {
 public:
  using Stream = std::function<grpc::Status(grpc::ServerContext&, const v1::ComputeJacobianRequest&, EventWriter&)>;

  // Streams follow the script; when it is used up, all that is asked for is answered.
  explicit ScriptedService(Layout layout = TestLayout(), std::vector<Stream> script = {});
  ~ScriptedService() override;

  std::string target() const;  // 127.0.0.1:PORT
  int port() const { return port_; }

  // Ends the server as a crash does, and starts it at the same port; `forget` uploads.
  void Restart(bool forget);

  std::vector<v1::ComputeJacobianRequest> requests() const;
  std::map<std::string, std::string> blobs() const;  // by digest
  int64_t uploads() const;

  // Answers of Upload, instead of success.
  void set_upload_status(grpc::Status status) { upload_status_ = std::move(status); }

 private:
  grpc::Status FindMissing(grpc::ServerContext*, const v1::FindMissingRequest*, v1::FindMissingResponse*) override;
  grpc::Status Upload(grpc::ServerContext*, grpc::ServerReader<v1::UploadRequest>*, v1::UploadResponse*) override;
  grpc::Status DescribeModel(grpc::ServerContext*, const v1::DescribeModelRequest*, v1::ModelDescription*) override;
  grpc::Status ComputeJacobian(grpc::ServerContext*, const v1::ComputeJacobianRequest*, EventWriter*) override;
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*, v1::ListWorkersResponse*) override;
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::GetServerInfoResponse*) override;
  void Start();

  const Layout layout_;
  mutable std::mutex mutex_;
  std::vector<Stream> script_;
  std::vector<v1::ComputeJacobianRequest> requests_;
  std::map<std::string, std::string> blobs_;
  int64_t uploads_ = 0;
  grpc::Status upload_status_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace jacserve::client
