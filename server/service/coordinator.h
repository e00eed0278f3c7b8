// The whole coordinator in one object: store, scheduler, services, local workers, gRPC server.
// In: options. Out: a server that runs until Shutdown; main and the test cluster both start it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "server/access/access.h"
#include "server/schedule/local_workers.h"
#include "server/schedule/scheduler.h"
#include "server/store/blob_store.h"

namespace grpc {
class Server;
}

namespace jacserve::server {

class JacobianService;
class RegistryService;

struct CoordinatorOptions {
  std::string listen = "127.0.0.1:0";
  std::filesystem::path state_directory;
  AccessOptions access;
  std::string worker_ca;  // that encrypted workers' certificates are of; empty: access.tls.ca
  int64_t store_quota_bytes = int64_t{16} << 30;
  SchedulerOptions scheduler;
  LocalWorkersOptions local_workers;  // count 0: none; addresses and sockets are filled in
};

class Coordinator {
 public:
  // Listening once it returns. Unavailable: the address cannot be listened on. Otherwise as Access::Make,
  // BlobStore::Open and LocalWorkers::Start.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(CoordinatorOptions options);
  ~Coordinator();

  int port() const { return port_; }
  Scheduler& scheduler() { return *scheduler_; }
  BlobStore& store() { return *store_; }
  const LocalWorkers* local_workers() const { return local_workers_.get(); }

  // No new jobs; health says so.
  void Drain();

  // No job is left.
  bool Idle() const;

  // Ends what still runs. Called by the destructor too.
  void Shutdown();

 private:
  Coordinator() = default;
  absl::Status Listen(const CoordinatorOptions& options);
  absl::Status StartLocalWorkers(LocalWorkersOptions options);

  std::filesystem::path runtime_directory_;  // private sockets; removed at the end
  std::unique_ptr<Access> access_;
  std::unique_ptr<BlobStore> store_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<JacobianService> jacobian_service_;
  std::unique_ptr<RegistryService> registry_service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<LocalWorkers> local_workers_;
  int port_ = 0;
};

}  // namespace jacserve::server
