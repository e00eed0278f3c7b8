// What the coordinator knows: jobs, their shards, leases and workers. Plain data; transitions.h changes it.
// Times are seconds of any monotonic clock.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/row_range.h"

namespace jacserve::server {

using JobId = int64_t;
using LeaseId = int64_t;
using WorkerKey = int64_t;  // one registration; a worker that comes back under the same id has a new key

enum class JobPhase { kQueued, kRunning, kDone, kFailed, kCancelled };
enum class ShardPhase { kWaiting, kLeased, kDone };
enum class WorkerPhase { kJoining, kReady, kDraining, kGone, kLost };

struct Shard {
  RowRange rows;
  RowSet delivered;  // rows whose chunks have all been passed on
  ShardPhase phase = ShardPhase::kWaiting;
  LeaseId lease = 0;               // phase == kLeased
  std::vector<WorkerKey> lost_on;  // workers that took it and did not finish, one entry each time
};

// The first step of a job: one worker compiles the request and states header and value. It is leased like a shard.
constexpr int kPrepareShard = -1;

// A worker's word that its memory budget is too small for a job, or its backend the wrong one.
struct Refusal {
  WorkerKey worker = 0;
  std::string backend;
  int64_t needed_bytes = 0;  // of a worker of this backend; kNoBudget: none suffices
};
constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();

struct Job {
  JobId id = 0;
  double created = 0;
  JobPhase phase = JobPhase::kQueued;
  absl::Status error;         // phase == kFailed
  Shard prepare;              // its row range is empty
  std::vector<Shard> shards;  // known once prepared
  std::string backend;        // of the worker that prepared it, and so of all: bits are a backend's own
  std::set<int> waiting;      // indices of shards that wait, in the order to hand out
  int shards_done = 0;
  int leased = 0;             // workers that are on it
  bool stalled = false;       // its client does not read; takes no lease until it does
  double served_seconds = 0;  // lease time used, from the level of the others when it came
  int64_t rows_delivered = 0;
  int64_t retries = 0;            // leases that were lost
  std::vector<Refusal> refusals;  // workers that these speak for are not asked
  absl::Status refusal;           // the last one's words
};

struct Lease {
  LeaseId id = 0;
  JobId job = 0;
  int shard = kPrepareShard;
  RowRange rows;
  WorkerKey worker = 0;
  double since = 0;
  double deadline = 0;  // moved on by every event of its stream
};

struct WorkerGpu {
  std::string uuid, compute_capability, driver;
  int64_t memory_bytes = 0;
};

struct WorkerDetails {
  std::string id;
  std::string address;
  std::string backend;
  std::string device;
  int64_t memory_budget_bytes = 0;
  int64_t threads = 0;
  std::optional<WorkerGpu> gpu;
  std::string call_token;  // shown with every call to it; listed nowhere
  bool tls = false;        // it is called encrypted
};

struct Worker {
  WorkerKey key = 0;
  WorkerDetails details;
  WorkerPhase phase = WorkerPhase::kJoining;
  LeaseId lease = 0;  // 0: idle
  bool busy = false;  // it refused its last lease: it still works on something that was cancelled
  JobId last_job = 0;
  double joined = 0;
  double heard = 0;  // last heartbeat
  double ended = 0;  // phase is kGone or kLost
  int64_t peak_rss_bytes = 0;
  int64_t rows_done = 0;
};

struct StateLimits {
  double silence_seconds = 3;       // a worker that is silent for longer is lost
  double lease_seconds = 600;       // a shard whose stream stands still for longer is lost
  double no_worker_seconds = 15;    // a job fails when none was there for this long
  double keep_ended_seconds = 300;  // workers that ended stay listed
  double turn_seconds = 1;          // a worker changes jobs no more often than this evens out: changing costs
  int lost_workers_to_poison = 3;
};

struct State {
  StateLimits limits;
  std::map<JobId, Job> jobs;
  std::map<WorkerKey, Worker> workers;
  std::map<LeaseId, Lease> leases;
  JobId next_job = 1;
  WorkerKey next_worker = 1;
  LeaseId next_lease = 1;
  std::optional<double> without_worker_since;
};

inline bool IsEnded(JobPhase phase) {
  return phase == JobPhase::kDone || phase == JobPhase::kFailed || phase == JobPhase::kCancelled;
}
inline bool IsEnded(WorkerPhase phase) { return phase == WorkerPhase::kGone || phase == WorkerPhase::kLost; }

}  // namespace jacserve::server
