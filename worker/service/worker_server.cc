#include "worker/service/worker_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/process.h"
#include "common/status.h"
#include "common/token.h"
#include "worker/engine/devices.h"
#include "worker/service/blob_fetcher.h"
#include "worker/service/worker_metrics.h"

namespace jacserve::worker {
namespace {

using std::chrono::milliseconds;

constexpr int kMaxRequestBytes = 64 << 20;  // a spec may name many tensors
constexpr char kServiceName[] = "jacserve.v1.WorkerService";

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

// What others must call to reach `listen`, whose port may have been chosen by the system.
std::string AddressFor(const std::string& listen, int port) {
  if (absl::StartsWith(listen, "unix:")) return listen;
  const std::string host = listen.substr(0, listen.rfind(':'));
  const bool any = host.empty() || host == "0.0.0.0" || host == "[::]" || host == "*";
  return absl::StrCat(any ? HostName() : host, ":", port);
}

v1::RegisterRequest RegistrationOf(const WorkerOptions& options, const std::string& address,
                                   const std::string& call_token) {
  v1::RegisterRequest request;
  request.set_call_token(call_token);
  request.set_tls(!options.tls.cert.empty());
  request.set_worker_id(options.id);
  request.set_address(address);
  request.set_version(JACSERVE_VERSION);
  const RunnerOptions& runner = options.runner;
  request.set_backend(std::string(NameOf(runner.backend)));
  request.set_device(runner.device.name.empty() ? ProcessorName() : runner.device.name);
  if (runner.device.gpu) {
    v1::GpuInfo& gpu = *request.mutable_gpu();
    gpu.set_uuid(runner.device.gpu->uuid);
    gpu.set_compute_capability(runner.device.gpu->compute_capability);
    gpu.set_driver(runner.device.gpu->driver);
    gpu.set_memory_bytes(runner.device.gpu->memory_bytes);
  }
  request.set_memory_budget_bytes(runner.backend == BackendKind::kCuda ? runner.gpu_budget_bytes
                                                                       : runner.memory_budget_bytes);
  request.set_threads(options.runner.threads);
  request.set_process_id(getpid());
  return request;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(const WorkerOptions& options,
                                                                  std::function<void(const absl::Status&)> on_end) {
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                   OpenChannel(options.coordinator, options.coordinator_access));
  std::unique_ptr<WorkerServer> worker(new WorkerServer(options, channel));
  RETURN_IF_ERROR(worker->Listen(options));
  WorkerMetrics::Get().memory_budget_bytes.Set(static_cast<double>(options.runner.memory_budget_bytes));
  LinkOptions link;
  link.registration = RegistrationOf(options, worker->address_, worker->call_token_);
  link.gone_timeout = options.coordinator_timeout;
  worker->link_ = std::make_unique<CoordinatorLink>(channel, std::move(link), std::move(on_end));
  return worker;
}

WorkerServer::WorkerServer(const WorkerOptions& options, std::shared_ptr<grpc::Channel> channel)
    : call_token_(NewToken()),
      blobs_(FetchFromCoordinator(std::move(channel)), BlobCacheShare(options.runner.memory_budget_bytes)),
      runner_(options.runner, blobs_, options.make_engine, options.report),
      service_(options.id, call_token_, runner_) {}

WorkerServer::~WorkerServer() {
  link_ = nullptr;
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

absl::Status WorkerServer::Listen(const WorkerOptions& options) {
  static std::once_flag once;
  std::call_once(once, [] { grpc::EnableDefaultHealthCheckService(true); });
  if (!absl::StartsWith(options.listen, "unix:") && !absl::StrContains(options.listen, ':')) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", options.listen, "' is no address to listen at; give HOST:PORT or unix:PATH"));
  }
  RETURN_IF_ERROR(CheckListenAddress(options.listen));
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (!options.tls.cert.empty()) {
    // The coordinator shows its token; its certificate may be a server's alone.
    ASSIGN_OR_RETURN(credentials, TlsServerCredentials({.cert = options.tls.cert, .key = options.tls.key}));
  } else if (!IsOnlyLocal(options.listen) && !options.insecure) {
    return absl::InvalidArgumentError(
        absl::StrCat("at ", options.listen, " other machines can reach this worker, unencrypted; give --tls-cert and ",
                     "--tls-key, or --insecure where the network itself is trusted"));
  }
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.listen, credentials, &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two workers at one port are a mistake
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen at ", options.listen, "; is it in use?"));
  }
  if (grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService(); health != nullptr) {
    health->SetServingStatus(kServiceName, true);
  }
  address_ = options.advertise.empty() ? AddressFor(options.listen, port) : options.advertise;
  return absl::OkStatus();
}

void WorkerServer::Drain(milliseconds patience, const std::function<bool()>& hurry) {
  constexpr milliseconds kPoll{20}, kLastBytes{1000};
  link_->Drain();
  service_.Drain();
  if (grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService(); health != nullptr) {
    health->SetServingStatus(false);
  }
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (service_.running() > 0 && std::chrono::steady_clock::now() < deadline && !hurry()) {
    std::this_thread::sleep_for(kPoll);
  }
  // A call whose work is over may still be sending its last rows and its status. What runs then is cancelled.
  const milliseconds grace = service_.running() > 0 ? milliseconds(0) : kLastBytes;
  server_->Shutdown(std::chrono::system_clock::now() + grace);
  link_->Leave();
}

}  // namespace jacserve::worker
