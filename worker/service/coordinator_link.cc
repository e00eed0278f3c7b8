#include "worker/service/coordinator_link.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/grpc_status.h"
#include "common/process.h"
#include "grpcpp/client_context.h"
#include "worker/service/worker_metrics.h"

namespace jacserve::worker {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallTime{5'000};
constexpr milliseconds kLeaveTime{1'000};  // the process ends whether or not the coordinator hears it
constexpr milliseconds kShortestInterval{20};
constexpr milliseconds kLongestInterval{60'000};

void SetDeadline(grpc::ClientContext& context, milliseconds time) {
  context.set_deadline(std::chrono::system_clock::now() + time);
}

}  // namespace

CoordinatorLink::CoordinatorLink(std::shared_ptr<grpc::Channel> channel, LinkOptions options,
                                 std::function<void(const absl::Status&)> on_end)
    : options_(std::move(options)),
      on_end_(std::move(on_end)),
      stub_(v1::WorkerRegistry::NewStub(channel)),
      backoff_(options_.first_backoff),
      last_answer_(Clock::now()),
      thread_([this] { Run(); }) {}

CoordinatorLink::~CoordinatorLink() { Stop(); }

void CoordinatorLink::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  WorkerMetrics::Get().registered.Set(0);
}

void CoordinatorLink::Drain() {
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
  }
  changed_.notify_all();
}

void CoordinatorLink::Leave() {
  Stop();
  grpc::ClientContext context;
  SetDeadline(context, kLeaveTime);
  v1::LeaveRequest request;
  request.set_worker_id(options_.registration.worker_id());
  v1::LeaveResponse response;
  const grpc::Status status = stub_->Leave(&context, request, &response);
  if (!status.ok()) spdlog::warn("the coordinator did not hear that this worker leaves: {}", status.error_message());
}

void CoordinatorLink::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const bool draining = draining_;
    lock.unlock();
    const absl::Status status = registered_ ? Beat(draining) : Register();
    milliseconds pause = interval_ / 2;
    if (status.ok()) {
      last_answer_ = Clock::now();
      backoff_ = options_.first_backoff;
      warned_ = false;
    } else {
      OnFailure(status);
      const bool forgotten = absl::IsNotFound(status);  // register again at once
      pause = forgotten ? milliseconds(0) : registered_ ? std::min(backoff_, pause) : backoff_;
      backoff_ = std::min(backoff_ * 2, options_.last_backoff);
    }
    WorkerMetrics::Get().registered.Set(registered_ ? 1 : 0);
    WorkerMetrics::Get().resident_memory_bytes.Set(static_cast<double>(RssBytes()));
    lock.lock();
    drain_told_ = draining && registered_;
    changed_.wait_for(lock, pause, [this] { return stopping_ || (draining_ && registered_ && !drain_told_); });
  }
}

absl::Status CoordinatorLink::Register() {
  grpc::ClientContext context;
  SetDeadline(context, kCallTime);
  v1::RegisterResponse response;
  const absl::Status status = FromGrpc(stub_->Register(&context, options_.registration, &response));
  if (!status.ok()) return status;
  registered_ = true;
  interval_ = std::clamp(milliseconds(response.heartbeat_interval_ms()), kShortestInterval, kLongestInterval);
  spdlog::info("registered with the coordinator as {}", options_.registration.worker_id());
  return absl::OkStatus();
}

absl::Status CoordinatorLink::Beat(bool draining) {
  grpc::ClientContext context;
  SetDeadline(context, kCallTime);
  v1::HeartbeatRequest request;
  request.set_worker_id(options_.registration.worker_id());
  request.set_draining(draining);
  request.set_peak_rss_bytes(PeakRssBytes());
  v1::HeartbeatResponse response;
  const absl::Status status = FromGrpc(stub_->Heartbeat(&context, request, &response));
  if (status.ok() && response.drain() && !draining) End(absl::OkStatus());
  return status;
}

void CoordinatorLink::OnFailure(const absl::Status& status) {
  if (registered_ && absl::IsNotFound(status)) {
    spdlog::info("the coordinator does not know this worker any more; registering again");
    registered_ = false;
    last_answer_ = Clock::now();
    return;
  }
  if (absl::IsInvalidArgument(status) || absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status)) {
    return End(status);
  }
  if (!warned_) spdlog::warn("the coordinator does not answer: {}; trying again", std::string(status.message()));
  warned_ = true;
  if (Clock::now() - last_answer_ > options_.gone_timeout) {
    End(absl::UnavailableError("the coordinator has been gone for too long"));
  }
}

void CoordinatorLink::End(const absl::Status& reason) {
  if (std::exchange(ended_, true)) return;
  on_end_(reason);
}

}  // namespace jacserve::worker
