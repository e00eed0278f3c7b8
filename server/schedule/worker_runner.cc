#include "server/schedule/worker_runner.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "common/grpc_status.h"
#include "common/proto_convert.h"
#include "common/raw_stream.h"
#include "common/status.h"
#include "jacserve/v1/worker_service.pb.h"

namespace jacserve::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr auto kConnectTime = std::chrono::seconds(10);
constexpr auto kBusyTime = std::chrono::minutes(10);  // a worker that refuses work for longer is lost
constexpr auto kBusyPause = milliseconds(20);

class LeaseOfWork : public RelayLease {
 public:
  LeaseOfWork(Scheduler& scheduler, const Lease& lease) : scheduler_(scheduler), lease_(lease) {}

  bool Alive() override { return scheduler_.Alive(lease_.id); }
  absl::StatusOr<bool> OnRowsDone(RowRange rows) override { return scheduler_.RowsDone(lease_.id, rows); }
  bool GiveBack(double blocked_seconds) override { return scheduler_.ShouldGiveBack(lease_, blocked_seconds); }

 private:
  Scheduler& scheduler_;
  const Lease& lease_;
};

}  // namespace

WorkerRunner::WorkerRunner(Scheduler& scheduler, WorkerKey key, std::shared_ptr<grpc::Channel> channel)
    : scheduler_(scheduler), key_(key), channel_(std::move(channel)), thread_([this] { Run(); }) {}

WorkerRunner::~WorkerRunner() { JACSERVE_CHECK(!thread_.joinable()); }

void WorkerRunner::Cancel(LeaseId lease) {
  std::lock_guard lock(mutex_);
  if (call_ != nullptr && lease_ == lease) call_->TryCancel();
}

void WorkerRunner::Retire() {
  retired_ = true;
  std::lock_guard lock(mutex_);
  if (call_ != nullptr) call_->TryCancel();
}

void WorkerRunner::Run() {
  if (Connect()) {
    scheduler_.RunnerConnected(key_);
    while (std::optional<Work> work = scheduler_.NextWork(key_)) {
      const RelayResult result = Relay(*work);
      scheduler_.Finish(*work, result);
      PauseIfBusy(result.end);
    }
  } else {
    scheduler_.WorkerLost(key_);
  }
  finished_ = true;
}

bool WorkerRunner::Connect() {
  const auto deadline = steady_clock::now() + kConnectTime;
  while (!retired_ && steady_clock::now() < deadline) {
    if (channel_->WaitForConnected(system_clock::now() + milliseconds(200))) return true;
  }
  if (!retired_) spdlog::warn("a worker registered, but its address cannot be reached from here");
  return false;
}

// A worker that was taken off a job may take a while to notice. Its next shard went back, so that others may take it.
void WorkerRunner::PauseIfBusy(RelayEnd end) {
  if (end != RelayEnd::kBusy) {
    busy_since_.reset();
    return;
  }
  if (!busy_since_) busy_since_ = steady_clock::now();
  if (steady_clock::now() - *busy_since_ > kBusyTime) return scheduler_.WorkerLost(key_);
  std::this_thread::sleep_for(kBusyPause);
}

RelayResult WorkerRunner::Relay(Work& work) {
  grpc::ClientContext context;
  {
    std::lock_guard lock(mutex_);
    call_ = &context;
    lease_ = work.lease.id;
  }
  LeaseOfWork lease(scheduler_, work.lease);
  RelayResult result{RelayEnd::kStopped, absl::OkStatus(), std::nullopt};
  if (lease.Alive()) {  // from here on, a revocation cancels the call
    const bool prepare = work.lease.shard == kPrepareShard;
    result = prepare ? Prepare(work, context, lease) : Compute(work, context, lease);
    context.TryCancel();  // without effect on a call that has ended
  }
  std::lock_guard lock(mutex_);
  call_ = nullptr;
  return result;
}

RelayResult WorkerRunner::Prepare(Work& work, grpc::ClientContext& context, RelayLease& lease) {
  v1::PrepareRequest request;
  *request.mutable_spec() = work.job->spec();
  const std::optional<v1::FollowingRows> following = work.job->Following();
  if (following) *request.mutable_following() = *following;
  const auto reader = OpenRawStream(*channel_, "/jacserve.v1.WorkerService/Prepare", context, request);
  RelayResult result = RelayPrepare(*reader, work.job->queue(), *work.job, lease);
  if (result.end != RelayEnd::kRowsFollow) return result;
  const std::optional<Lease> next = scheduler_.GoOn(work);
  if (!next) return {RelayEnd::kComplete, absl::OkStatus(), std::nullopt};
  {
    std::lock_guard lock(mutex_);
    work.lease = *next;
    lease_ = next->id;
  }
  if (!lease.Alive()) return {RelayEnd::kStopped, absl::OkStatus(), std::nullopt};
  return RelayRows(*reader, work.job->queue(), next->rows, work.job->layout(), lease, std::move(result.first));
}

RelayResult WorkerRunner::Compute(const Work& work, grpc::ClientContext& context, RelayLease& lease) {
  v1::ComputeShardRequest request;
  *request.mutable_spec() = work.job->spec();
  *request.mutable_rows() = ToProto(work.lease.rows);
  const auto reader = OpenRawStream(*channel_, "/jacserve.v1.WorkerService/ComputeShard", context, request);
  return RelayRows(*reader, work.job->queue(), work.lease.rows, work.job->layout(), lease);
}

}  // namespace jacserve::server
