#include "client/cli/session.h"

#include <chrono>
#include <cstdio>
#include <thread>

#include "absl/strings/numbers.h"
#include "client/cpp/text.h"
#include "common/size_text.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

constexpr std::chrono::seconds kWorkerTimeout(30);
constexpr std::chrono::milliseconds kPoll(20);

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Open(const ServerChoice& choice, const std::stop_source& stop) {
  std::unique_ptr<Session> session(new Session());
  std::string target = choice.server;
  if (target.empty()) {
    LocalServerOptions options;
    options.workers = choice.local;
    options.device = choice.device;
    options.worker_memory_budget = choice.memory_budget;
    ASSIGN_OR_RETURN(session->local_, LocalServer::Start(options, stop));
    target = session->local_->target();
  }
  ClientOptions options;
  options.access = choice.access;
  options.stop = stop.get_token();
  options.on_waiting = [&](absl::Duration most) {
    std::fprintf(stderr, "jacserve: waiting up to %s for a server at %s\n",
                 DurationText(absl::ToDoubleSeconds(most)).c_str(), target.c_str());
  };
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(target, options);
  if (!client.ok()) return session->Explain(client.status());
  session->client_ = *std::move(client);
  if (session->local_) {
    const absl::Status ready = session->WaitForWorkers(choice.local, stop.get_token());
    if (!ready.ok()) return session->Explain(ready);
  }
  return session;
}

absl::Status Session::WaitForWorkers(const std::string& wanted, const std::stop_token& stop) {
  int64_t count = 1;  // with "auto", the first worker is enough to begin
  if (wanted != "auto") (void)absl::SimpleAtoi(wanted, &count);
  const auto deadline = std::chrono::steady_clock::now() + kWorkerTimeout;
  int64_t ready = 0;
  while (!stop.stop_requested()) {
    ASSIGN_OR_RETURN(const v1::GetServerInfoResponse info, client_->GetServerInfo());
    ready = info.workers_ready();
    if (ready >= count) return absl::OkStatus();
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(kPoll);
  }
  if (stop.stop_requested()) return absl::CancelledError("interrupted");
  if (ready > 0) return absl::OkStatus();  // fewer do the same work
  return local_->NoWorkers();
}

absl::Status Session::Explain(absl::Status status) const {
  if (status.ok() || !local_ || !local_->died()) return status;
  return local_->Obituary();
}

}  // namespace jacserve::client
