#include "server/service/coordinator.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/support/server_interceptor.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "server/service/jacobian_service.h"
#include "server/service/registry_service.h"

namespace jacserve::server {
namespace {

// A client that reads nothing for longer is taken for dead. Long, because a client without a thread of its own for the
// connection answers only while it reads.
constexpr int kDeadClientMs = 600'000;
constexpr int kPingMs = 60'000;
constexpr int kMaxThreads = 4'096;
constexpr int kMaxRequestBytes = 64 << 20;  // a request may name many tensors
constexpr int kWindowBytes = 4 << 20;       // read ahead of an upload; gRPC's own estimate knows no bound

constexpr size_t kLongestSocketFolder = 90;  // the path of a unix socket has at most 107 bytes

// A fresh folder for sockets that only this user can enter. Within the state directory, which is this process's alone,
// so that what a killed coordinator left is removed by the next; elsewhere when that path is too long for a socket.
absl::StatusOr<std::filesystem::path> MakeRuntimeDirectory(const std::filesystem::path& state_directory) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(state_directory, error) / "run";
  if (!error && folder.string().size() <= kLongestSocketFolder) {
    std::filesystem::remove_all(folder, error);
    if (!error && mkdir(folder.c_str(), 0700) == 0) return folder;
  }
  std::string name = (std::filesystem::temp_directory_path(error) / "jacserve-XXXXXX").string();
  if (error || mkdtemp(name.data()) == nullptr) {
    return absl::FailedPreconditionError("cannot make a folder for temporary files; set TMPDIR to one that exists");
  }
  return std::filesystem::path(name);
}

// Reflection is there in every program that links its library, and answers whoever asks. This ends its calls.
class ReflectionCloser : public grpc::experimental::Interceptor {
 public:
  explicit ReflectionCloser(grpc::experimental::ServerRpcInfo* call) : call_(call) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      call_->server_context()->TryCancel();
    }
    methods->Proceed();
  }

 private:
  grpc::experimental::ServerRpcInfo* const call_;
};

class ReflectionClosers : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* call) override {
    const bool reflects = absl::StartsWith(call->method(), "/grpc.reflection.");
    return reflects ? new ReflectionCloser(call) : nullptr;  // gRPC deletes it with the call
  }
};

std::string PrivateAddress(const std::filesystem::path& runtime_directory) {
  return absl::StrCat("unix:", (runtime_directory / "coordinator").string());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(CoordinatorOptions options) {
  std::unique_ptr<Coordinator> coordinator(new Coordinator);
  ASSIGN_OR_RETURN(coordinator->access_, Access::Make(options.access, options.listen));
  ASSIGN_OR_RETURN(coordinator->store_, BlobStore::Open(options.state_directory, options.store_quota_bytes));
  options.scheduler.expects_workers |= options.local_workers.count != 0;
  options.scheduler.worker_tls = options.access.tls;
  if (!options.worker_ca.empty()) options.scheduler.worker_tls.ca = options.worker_ca;
  RETURN_IF_ERROR(CheckTlsFiles(options.scheduler.worker_tls));
  coordinator->scheduler_ = std::make_unique<Scheduler>(options.scheduler);
  coordinator->jacobian_service_ =
      std::make_unique<JacobianService>(*coordinator->scheduler_, *coordinator->store_, *coordinator->access_);
  coordinator->registry_service_ =
      std::make_unique<RegistryService>(*coordinator->scheduler_, *coordinator->store_, *coordinator->access_);
  ASSIGN_OR_RETURN(coordinator->runtime_directory_, MakeRuntimeDirectory(options.state_directory));
  RETURN_IF_ERROR(coordinator->Listen(options));
  if (options.local_workers.count != 0) {
    RETURN_IF_ERROR(coordinator->StartLocalWorkers(std::move(options.local_workers)));
  }
  return coordinator;
}

absl::Status Coordinator::Listen(const CoordinatorOptions& options) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();  // without effect beyond the first time
  grpc::ResourceQuota quota("coordinator");
  quota.SetMaxThreads(kMaxThreads);
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a second server on the port must fail
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kDeadClientMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (!options.access.tls.cert.empty()) {
    ASSIGN_OR_RETURN(credentials, TlsServerCredentials(options.access.tls));
  }
  builder.AddListeningPort(options.listen, credentials, &port_);
  builder.AddListeningPort(PrivateAddress(runtime_directory_), grpc::InsecureServerCredentials());
  if (access_->asks_for_tokens()) {
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
    interceptors.push_back(std::make_unique<ReflectionClosers>());
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
  }
  builder.RegisterService(jacobian_service_.get());
  builder.RegisterService(registry_service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on '", options.listen, "'; give a free address as host:port"));
  }
  return absl::OkStatus();
}

absl::Status Coordinator::StartLocalWorkers(LocalWorkersOptions options) {
  options.socket_directory = runtime_directory_;
  options.coordinator_address = PrivateAddress(runtime_directory_);
  options.had_work = [this](const std::string& id, std::chrono::steady_clock::time_point since) {
    return scheduler_->HadWorkSince(id, since);
  };
  ASSIGN_OR_RETURN(local_workers_, LocalWorkers::Start(std::move(options),
                                                       [this](const std::string& id) { scheduler_->WorkerLost(id); }));
  return absl::OkStatus();
}

Coordinator::~Coordinator() { Shutdown(); }

void Coordinator::Drain() {
  scheduler_->Drain();
  if (auto* health = server_->GetHealthCheckService()) health->SetServingStatus(false);
}

bool Coordinator::Idle() const { return scheduler_->Counts().jobs_open == 0; }

void Coordinator::Shutdown() {
  if (scheduler_ != nullptr) scheduler_->Stop();
  local_workers_.reset();
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    server_->Wait();
    server_.reset();
  }
  std::error_code ignored;
  if (!runtime_directory_.empty()) std::filesystem::remove_all(runtime_directory_, ignored);
}

}  // namespace jacserve::server
