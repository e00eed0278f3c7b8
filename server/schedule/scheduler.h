// Drives the coordinator's state: jobs in, workers in, work to worker runners out. Holds the lock and the clock.
// In: requests, registrations, heartbeats, what became of each lease. Out: leases, ended queues, cancelled calls.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tls.h"
#include "server/relay/relay.h"
#include "server/schedule/active_job.h"
#include "server/state/state.h"
#include "server/state/transitions.h"

namespace grpc {
class Channel;
}

namespace jacserve::server {

class WorkerRunner;

struct SchedulerOptions {
  StateLimits limits;
  std::chrono::milliseconds heartbeat_interval{1000};
  double give_back_seconds = 2;            // a client may hold a worker up for so long while another job waits
  int64_t queue_bytes = int64_t{8} << 20;  // in flight per client
  int max_jobs = 256;
  bool expects_workers = false;  // some are being started: wait for them
  TlsFiles worker_tls;           // for calls of workers that are called encrypted
};

struct Work {
  Lease lease;
  std::shared_ptr<ActiveJob> job;
  std::string worker_id;
};

struct SchedulerCounts {
  int64_t jobs_queued = 0;
  int64_t jobs_running = 0;
  int64_t jobs_open = 0;  // whose clients have not got everything yet
  int64_t shards_waiting = 0;
  int64_t workers_ready = 0;
  bool draining = false;
};

struct ReadyWorker {
  WorkerKey key = 0;
  std::shared_ptr<grpc::Channel> channel;
};

// Thread-safe.
class Scheduler {
 public:
  explicit Scheduler(SchedulerOptions options);
  ~Scheduler();

  // --- For clients' calls ---

  struct Submitted {
    JobId id = 0;
    std::shared_ptr<ActiveJob> job;  // its queue carries the answer
  };
  // Unavailable: draining, or no worker. ResourceExhausted: too many jobs.
  absl::StatusOr<Submitted> Submit(JobRequest request, std::shared_ptr<const void> keep_alive);

  // Rows, shards and retries of a job, for its summary.
  v1::JacobianSummary SummaryOf(const Submitted& submitted) const;

  // The client has its answer or is gone; what still runs is stopped.
  void Release(const Submitted& submitted);

  // A worker that is ready and not in `tried`, idle ones first; waits for one that is about to be, unless `cancelled`.
  // Unavailable: none came.
  absl::StatusOr<ReadyWorker> AnyWorker(const std::set<WorkerKey>& tried, const std::function<bool()>& cancelled);

  // --- For workers' calls ---

  // Errors: CheckTlsFiles, of a worker that is called encrypted.
  absl::Status Register(const WorkerDetails& details);

  // False: unknown, register (again).
  bool Heartbeat(const std::string& worker_id, bool draining, int64_t peak_rss_bytes);
  void Leave(const std::string& worker_id);

  // Its process has ended or does not answer.
  void WorkerLost(const std::string& worker_id);
  void WorkerLost(WorkerKey key);

  // Whether a worker of this id has joined since and was given anything to do.
  bool HadWorkSince(const std::string& worker_id, std::chrono::steady_clock::time_point since) const;

  // --- For worker runners ---

  void RunnerConnected(WorkerKey key);

  // Waits for work. None: the worker has ended.
  std::optional<Work> NextWork(WorkerKey key);
  bool Alive(LeaseId lease);
  absl::StatusOr<bool> RowsDone(LeaseId lease, RowRange rows);
  bool ShouldGiveBack(const Lease& lease, double blocked_seconds);
  // The worker has prepared its job and gives rows in the same stream: its lease of them. None: they are not all that
  // the job consists of, or the lease is void.
  std::optional<Lease> GoOn(const Work& work);
  void Finish(const Work& work, const RelayResult& result);

  // --- For the process ---

  SchedulerCounts Counts() const;
  std::vector<Worker> Workers() const;
  std::chrono::milliseconds heartbeat_interval() const { return options_.heartbeat_interval; }

  // No new jobs.
  void Drain();

  // Ends all jobs and runners.
  void Stop();

 private:
  using RunnerPtr = std::shared_ptr<WorkerRunner>;

  double Now() const;
  bool IsDone(const Lease& lease) const;
  Effects FinishLocked(const Work& work, const RelayResult& result);
  Effects FailedLocked(const Work& work, const absl::Status& status);
  // Carries out what a transition asks for; releases the lock.
  void Carry(std::unique_lock<std::mutex> lock, Effects effects);
  void Housekeeping();
  void WakeStalledJobs();
  void ReapRunners();
  void UpdateMetrics() const;

  const SchedulerOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // there may be work, or a worker
  std::condition_variable stop_;
  State state_;
  std::map<JobId, std::shared_ptr<ActiveJob>> jobs_;
  std::map<WorkerKey, RunnerPtr> runners_;
  std::vector<RunnerPtr> retired_;
  bool draining_ = false;
  bool stopping_ = false;
  std::thread housekeeper_;
};

}  // namespace jacserve::server
