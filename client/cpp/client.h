// The client of a coordinator: uploads what it lacks, asks for Jacobians and picks up where a stream broke.
// In: a server's address and prepared requests. Out: rows to a receiver, descriptions, or a status in words.
//
//   auto client = Client::Connect("localhost:50051");
//   auto prepared = Prepare(request);
//   auto result = (*client)->ComputeJacobian(*prepared, {}, receiver);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/layout.h"
#include "client/cpp/nonfinite_rows.h"
#include "client/cpp/request.h"
#include "client/cpp/retry.h"
#include "client/cpp/row_receiver.h"
#include "common/channel.h"
#include "grpcpp/channel.h"
#include "jacserve/v1/jacobian_service.grpc.pb.h"

namespace jacserve::client {

struct ClientOptions {
  PeerAccess access;  // token and TLS
  absl::Duration connect_timeout = absl::Seconds(10);
  RetryOptions retry;
  std::stop_token stop;  // ends every call with Cancelled
  // Connect: called once when the server does not answer at once, with how long it is waited for at most.
  std::function<void(absl::Duration)> on_waiting;
};

// Which rows: `range` of the flattened target, none for all; `done`, which needs a range, are not asked for again.
struct RowsWanted {
  std::optional<RowRange> range;
  RowSet done;
};

struct UploadReport {
  int64_t blobs = 0;        // that the server lacked
  int64_t bytes = 0;        // of these
  int64_t total_bytes = 0;  // of all
};

struct JacobianResult {
  Layout layout;
  v1::JacobianSummary summary;  // phases and shards summed over resumed streams; processes of the last
  int64_t payload_bytes = 0;    // of chunks received, repeats included
  int64_t nonfinite_rows = 0;   // of those received, rows that hold NaN or infinity
  std::optional<NonFiniteRows::First> first_nonfinite;
  int64_t resumes = 0;           // streams that broke and were continued
  double seconds = 0;            // wall time of the whole call
  double seconds_to_header = 0;  // until the first header: queueing, planning and the forward pass
};

// One thread at a time.
class Client {
 public:
  // Unavailable: nothing answers at `target` (HOST:PORT or unix:PATH) in time. InvalidArgument: no address, or as
  // CheckTlsFiles.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& target, const ClientOptions& options = {});

  Client(std::shared_ptr<grpc::Channel> channel, ClientOptions options);

  // Sends the blobs that the server lacks. ResourceExhausted: its quota or disk. Unavailable: gone for too long.
  absl::StatusOr<UploadReport> UploadMissing(std::span<const Blob> blobs);

  // What the graph holds; it must have been uploaded. InvalidArgument: no valid graph. Unavailable: no worker.
  absl::StatusOr<v1::ModelDescription> Describe(const std::string& graph_sha256);

  // Uploads what is missing, then delivers every wanted row to `receiver`, on this thread. A stream that breaks is
  // continued with the rows still missing, as long as rows arrive every few tries. Errors: the server's, the
  // receiver's, Cancelled, Unavailable and DataLoss after too many tries. Rows reported done to the receiver before an
  // error are whole and right.
  absl::StatusOr<JacobianResult> ComputeJacobian(const PreparedRequest& request, const RowsWanted& rows,
                                                 RowReceiver& receiver);

  absl::StatusOr<v1::ListWorkersResponse> ListWorkers();
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo();

 private:
  absl::Status CallWithRetry(const std::function<grpc::Status(grpc::ClientContext&)>& call, absl::Duration deadline);
  absl::Status UploadOnce(const Blob& blob);

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JacobianService::Stub> stub_;
  ClientOptions options_;
};

}  // namespace jacserve::client
