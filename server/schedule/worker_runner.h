// One thread per registered worker: takes leases from the scheduler and relays the worker's streams.
// In: the worker's address, leases. Out: queued events, and what became of each lease.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "server/schedule/scheduler.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace jacserve::server {

class WorkerRunner {
 public:
  // `scheduler` outlives the runner.
  WorkerRunner(Scheduler& scheduler, WorkerKey key, std::shared_ptr<grpc::Channel> channel);
  ~WorkerRunner();  // after Join

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // Stops the call of this lease, if it is under way.
  void Cancel(LeaseId lease);

  // The worker has ended: the thread ends with the call under way cancelled.
  void Retire();
  bool finished() const { return finished_; }

  // Waits for the thread of a retired runner. Never from that thread: it may be the last to hold the runner.
  void Join() { thread_.join(); }

 private:
  void Run();
  bool Connect();
  // `work` becomes that of the rows when the worker goes on with them after it has prepared them.
  RelayResult Relay(Work& work);
  RelayResult Prepare(Work& work, grpc::ClientContext& context, RelayLease& lease);
  RelayResult Compute(const Work& work, grpc::ClientContext& context, RelayLease& lease);
  void PauseIfBusy(RelayEnd end);

  Scheduler& scheduler_;
  const WorkerKey key_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::mutex mutex_;
  grpc::ClientContext* call_ = nullptr;  // under way
  LeaseId lease_ = 0;
  std::optional<std::chrono::steady_clock::time_point> busy_since_;  // it has refused all work since
  std::atomic<bool> retired_ = false;
  std::atomic<bool> finished_ = false;
  std::thread thread_;
};

}  // namespace jacserve::server
