// Every change of the coordinator's state: functions of (state, event, now), no threads, no clock, no gRPC.
// In: what happened. Out: the changed state, and what the caller must do about it.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/state/state.h"

namespace jacserve::server {

// What follows from a transition, for whoever drives the state.
struct Effects {
  std::vector<Lease> revoked;   // work to be stopped at its worker; the lease is void already
  std::vector<JobId> ended;     // jobs that are now done, failed or cancelled
  std::vector<WorkerKey> lost;  // workers that are now lost

  void Append(Effects other);
};

// --- Jobs ---

JobId AddJob(State& state, double now);

// All rows of the job, cut into shards, once its prepare lease has stated how many there are; ends that lease.
// No shards: the job is done. A lease that is void: nothing happens.
Effects PrepareDone(State& state, LeaseId lease, const std::vector<RowRange>& shards, double now);

// The worker that prepared the job goes on with `rows`, which are all that it has: its lease of them. None: the lease
// is void.
std::optional<Lease> PrepareDoneAndOn(State& state, LeaseId lease, RowRange rows, double now);

// Ends the job, whatever it is at. A job that has ended stays as it is.
Effects CancelJob(State& state, JobId job, double now);
Effects FailJob(State& state, JobId job, absl::Status error, double now);

// A job whose client does not read takes no further lease until it does.
void SetStalled(State& state, JobId job, bool stalled);

// Forgets a job that has ended.
void RemoveJob(State& state, JobId job);

// --- Leases ---

// The next piece of work for an idle, ready worker: of the job with the fewest workers, then the least served, where
// the job that it had last is a turn ahead.
std::optional<Lease> Assign(State& state, WorkerKey worker, double now);

// Whether Assign would find work of another job for this worker, once it is idle.
bool OtherJobWaits(const State& state, WorkerKey worker, JobId job);

// The lease's stream moved. False: the lease is void, its work should stop.
bool Progress(State& state, LeaseId lease, double now);

// All chunks of these rows were passed on. False: the lease is void. InvalidArgument: rows outside the shard.
absl::StatusOr<bool> RowsDelivered(State& state, LeaseId lease, RowRange rows, double now);

// The worker's stream ended well. Rows it left out make it a lost lease.
Effects ShardDone(State& state, LeaseId lease, double now);

// The lease ended early through the worker's fault: what is undelivered waits again; the third time poisons it.
Effects LeaseLost(State& state, LeaseId lease, double now);

// The lease was handed back in good order, half done or not begun.
Effects LeaseGivenBack(State& state, LeaseId lease, double now);

// The worker refused the lease, since it is busy with what was cancelled: it is not idle until it takes one.
Effects LeaseRefusedForNow(State& state, LeaseId lease, double now);

// The worker's memory budget is too small, as `error` says; `needed_bytes` would do, 0: it does not say, kNoBudget:
// none of this backend would. The shard waits for a worker that fits.
Effects LeaseRefused(State& state, LeaseId lease, int64_t needed_bytes, const absl::Status& error, double now);

// Fails jobs that were refused or begun and that no worker fits, of those that live or ended just now.
Effects EndUnfit(State& state, double now);

// --- Workers ---

// A registration; an earlier one under the same id is lost.
WorkerKey AddWorker(State& state, const WorkerDetails& details, double now, Effects& effects);
void WorkerReady(State& state, WorkerKey worker);

// The live worker of this id; none: it must register (again).
std::optional<WorkerKey> FindWorker(const State& state, const std::string& id);
void Heartbeat(State& state, WorkerKey worker, bool draining, int64_t peak_rss_bytes, double now);

// The worker left by itself (kGone) or stopped answering (kLost).
Effects EndWorker(State& state, WorkerKey worker, WorkerPhase phase, double now);

// Silent workers, leases past their deadline, jobs that no worker came for.
Effects Tick(State& state, double now);

// Whether a worker of this id has joined since and was given anything to do.
bool HadWorkSince(const State& state, const std::string& id, double since);

int LiveWorkers(const State& state);  // joining, ready or draining
int ReadyWorkers(const State& state);
int ReadyWorkersLike(const State& state, WorkerKey worker);  // of the same backend

}  // namespace jacserve::server
