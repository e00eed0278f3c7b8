// A whole worker in one object: cache, engine, gRPC server with health and reflection, link to the coordinator.
// In: options. Out: a worker that the coordinator can use, until it is drained.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/channel.h"
#include "worker/service/blob_cache.h"
#include "worker/service/coordinator_link.h"
#include "worker/service/shard_runner.h"
#include "worker/service/worker_service.h"

namespace grpc {
class Server;
}

namespace jacserve::worker {

struct WorkerOptions {
  std::string id;
  std::string listen = "127.0.0.1:0";  // HOST:PORT, port 0 for any, or unix:PATH
  std::string advertise;               // the address that the coordinator calls; empty: from `listen`
  std::string coordinator;             // gRPC target
  PeerAccess coordinator_access;       // what to show it and to see of it
  TlsFiles tls;                        // of this worker's own server; cert empty: unencrypted
  bool insecure = false;               // unencrypted beyond this machine, too
  std::chrono::milliseconds coordinator_timeout{300'000};
  RunnerOptions runner;
  EngineFactory make_engine;
  GraphReporter report;
};

class WorkerServer {
 public:
  // `on_end`: see CoordinatorLink. InvalidArgument: an address that cannot be, or that others reach unencrypted without
  // `insecure`; as CheckTlsFiles. Unavailable: it cannot be listened at.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(const WorkerOptions& options,
                                                             std::function<void(const absl::Status&)> on_end);
  ~WorkerServer();

  // Where the coordinator is told to call.
  const std::string& address() const { return address_; }

  // Takes no further work; waits for the running call, at most `patience`, and until `hurry` says true; then cancels
  // it, leaves and stops serving.
  void Drain(std::chrono::milliseconds patience, const std::function<bool()>& hurry);

 private:
  WorkerServer(const WorkerOptions& options, std::shared_ptr<grpc::Channel> channel);
  absl::Status Listen(const WorkerOptions& options);

  const std::string call_token_;  // that the coordinator must show
  BlobCache blobs_;
  ShardRunner runner_;
  WorkerService service_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<CoordinatorLink> link_;
};

}  // namespace jacserve::worker
