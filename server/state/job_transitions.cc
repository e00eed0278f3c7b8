// Jobs and leases: who works on what, what returns to waiting, when a job ends.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "server/state/fitness.h"
#include "server/state/transitions.h"

namespace jacserve::server {
namespace {

Shard& ShardOf(Job& job, int index) { return index == kPrepareShard ? job.prepare : job.shards[index]; }

Job& JobOf(State& state, const Lease& lease) {
  auto job = state.jobs.find(lease.job);
  JACSERVE_CHECK(job != state.jobs.end());
  return job->second;
}

// The lease is over: worker and job no longer hold it. The shard's new phase is the caller's affair.
Lease Release(State& state, LeaseId id, double now) {
  auto it = state.leases.find(id);
  JACSERVE_CHECK(it != state.leases.end());
  Lease lease = it->second;
  state.leases.erase(it);
  state.workers.at(lease.worker).lease = 0;
  Job& job = JobOf(state, lease);
  --job.leased;
  job.served_seconds += now - lease.since;
  ShardOf(job, lease.shard).lease = 0;
  return lease;
}

Effects EndJob(State& state, Job& job, JobPhase phase, absl::Status error, double now) {
  Effects effects;
  std::vector<LeaseId> held;
  for (const auto& [id, lease] : state.leases) {
    if (lease.job == job.id) held.push_back(id);
  }
  for (LeaseId id : held) {
    Lease lease = Release(state, id, now);
    ShardOf(job, lease.shard).phase = ShardPhase::kWaiting;
    effects.revoked.push_back(lease);
  }
  job.waiting.clear();
  job.phase = phase;
  job.error = std::move(error);
  effects.ended.push_back(job.id);
  return effects;
}

void MarkDone(Job& job, Shard& shard) {
  shard.phase = ShardPhase::kDone;
  ++job.shards_done;
}

Effects EndIfComplete(State& state, Job& job, double now) {
  if (job.shards_done < static_cast<int>(job.shards.size())) return {};
  return EndJob(state, job, JobPhase::kDone, absl::OkStatus(), now);
}

// Undelivered rows wait again, each contiguous run as a shard of its own: a worker is asked for one range at a time.
void ReturnToWaiting(Job& job, int index) {
  if (index == kPrepareShard) {
    job.prepare.phase = ShardPhase::kWaiting;
    return;
  }
  const std::vector<RowRange> missing = job.shards[index].delivered.MissingFrom(job.shards[index].rows);
  const std::vector<WorkerKey> lost_on = job.shards[index].lost_on;
  for (size_t i = 0; i < missing.size(); ++i) {
    if (i > 0) {
      index = static_cast<int>(job.shards.size());
      job.shards.emplace_back();
    }
    Shard& shard = job.shards[index];
    shard = Shard{};
    shard.rows = missing[i];
    shard.lost_on = lost_on;
    job.waiting.insert(index);
  }
}

bool IsComplete(const Shard& shard, int index) {
  return index != kPrepareShard && shard.delivered.Contains(shard.rows);
}

absl::Status Poisoned(int index, const Shard& shard) {
  if (index == kPrepareShard) {
    return absl::DataLossError(absl::StrCat("preparing this model ended ", shard.lost_on.size(),
                                            " workers in turn; it may need more memory than a worker has"));
  }
  const std::vector<RowRange> missing = shard.delivered.MissingFrom(shard.rows);
  return absl::DataLossError(absl::StrCat("rows ", missing.front().begin, " to ", missing.back().end() - 1,
                                          " could not be computed: ", shard.lost_on.size(),
                                          " workers in turn were lost or failed on them"));
}

// Index of the shard that this worker would get of this job.
std::optional<int> NextShard(const State& state, const Job& job, WorkerKey key) {
  const Worker& worker = state.workers.at(key);
  if (IsEnded(job.phase) || job.stalled) return std::nullopt;
  if (job.prepare.phase != ShardPhase::kDone) {
    const bool free = job.prepare.phase == ShardPhase::kWaiting && MayTake(state, job, job.prepare, worker);
    return free ? std::optional(kPrepareShard) : std::nullopt;
  }
  for (int index : job.waiting) {
    if (MayTake(state, job, job.shards[index], worker)) return index;
  }
  return std::nullopt;
}

// To a worker that has none.
Lease Give(State& state, Job& job, int index, Worker& worker, double now) {
  Shard& shard = ShardOf(job, index);
  const Lease lease{state.next_lease++, job.id, index, shard.rows, worker.key, now, now + state.limits.lease_seconds};
  shard.phase = ShardPhase::kLeased;
  shard.lease = lease.id;
  job.waiting.erase(index);
  job.phase = JobPhase::kRunning;
  ++job.leased;
  worker.lease = lease.id;
  worker.last_job = job.id;
  state.leases.emplace(lease.id, lease);
  return lease;
}

}  // namespace

void Effects::Append(Effects other) {
  std::move(other.revoked.begin(), other.revoked.end(), std::back_inserter(revoked));
  ended.insert(ended.end(), other.ended.begin(), other.ended.end());
  lost.insert(lost.end(), other.lost.begin(), other.lost.end());
}

JobId AddJob(State& state, double now) {
  Job job;
  job.id = state.next_job++;
  job.created = now;
  bool first = true;
  for (const auto& [id, other] : state.jobs) {
    if (IsEnded(other.phase)) continue;
    job.served_seconds = first ? other.served_seconds : std::min(job.served_seconds, other.served_seconds);
    first = false;
  }
  const JobId id = job.id;
  state.jobs.emplace(id, std::move(job));
  return id;
}

Effects PrepareDone(State& state, LeaseId id, const std::vector<RowRange>& shards, double now) {
  if (!state.leases.contains(id)) return {};
  const Lease lease = Release(state, id, now);
  JACSERVE_CHECK(lease.shard == kPrepareShard);
  Job& job = JobOf(state, lease);
  job.prepare.phase = ShardPhase::kDone;
  job.backend = state.workers.at(lease.worker).details.backend;
  for (const RowRange& rows : shards) {
    job.waiting.insert(static_cast<int>(job.shards.size()));
    Shard shard;
    shard.rows = rows;
    job.shards.push_back(std::move(shard));
  }
  return EndIfComplete(state, job, now);
}

std::optional<Lease> PrepareDoneAndOn(State& state, LeaseId id, RowRange rows, double now) {
  const auto found = state.leases.find(id);
  if (found == state.leases.end()) return std::nullopt;
  JACSERVE_CHECK(rows.count > 0);
  Job& job = JobOf(state, found->second);
  Worker& worker = state.workers.at(found->second.worker);
  PrepareDone(state, id, {rows}, now);
  return Give(state, job, 0, worker, now);
}

Effects CancelJob(State& state, JobId id, double now) {
  auto job = state.jobs.find(id);
  if (job == state.jobs.end() || IsEnded(job->second.phase)) return {};
  return EndJob(state, job->second, JobPhase::kCancelled, absl::CancelledError("the job was cancelled"), now);
}

Effects FailJob(State& state, JobId id, absl::Status error, double now) {
  auto job = state.jobs.find(id);
  if (job == state.jobs.end() || IsEnded(job->second.phase)) return {};
  return EndJob(state, job->second, JobPhase::kFailed, std::move(error), now);
}

void SetStalled(State& state, JobId id, bool stalled) {
  auto job = state.jobs.find(id);
  if (job != state.jobs.end()) job->second.stalled = stalled;
}

void RemoveJob(State& state, JobId id) {
  auto job = state.jobs.find(id);
  if (job == state.jobs.end()) return;
  JACSERVE_CHECK(IsEnded(job->second.phase));
  state.jobs.erase(job);
}

std::optional<Lease> Assign(State& state, WorkerKey key, double now) {
  auto found = state.workers.find(key);
  if (found == state.workers.end() || found->second.phase != WorkerPhase::kReady || found->second.lease != 0) {
    return std::nullopt;
  }
  Job* best = nullptr;
  int best_shard = 0;
  const auto rank = [&](const Job& job) {
    const double ahead = job.id == found->second.last_job ? state.limits.turn_seconds : 0;
    return std::pair(job.leased, job.served_seconds - ahead);
  };
  for (auto& [id, job] : state.jobs) {
    const std::optional<int> shard = NextShard(state, job, key);
    if (!shard || (best != nullptr && rank(job) >= rank(*best))) continue;
    best = &job;
    best_shard = *shard;
  }
  if (best == nullptr) return std::nullopt;
  return Give(state, *best, best_shard, found->second, now);
}

bool OtherJobWaits(const State& state, WorkerKey worker, JobId job) {
  return std::any_of(state.jobs.begin(), state.jobs.end(), [&](const auto& entry) {
    return entry.first != job && NextShard(state, entry.second, worker).has_value();
  });
}

bool Progress(State& state, LeaseId id, double now) {
  auto lease = state.leases.find(id);
  if (lease == state.leases.end()) return false;
  lease->second.deadline = now + state.limits.lease_seconds;
  return true;
}

absl::StatusOr<bool> RowsDelivered(State& state, LeaseId id, RowRange rows, double now) {
  if (!Progress(state, id, now)) return false;
  const Lease& lease = state.leases.at(id);
  const bool inside = rows.begin >= lease.rows.begin && rows.count >= 0 && rows.begin <= lease.rows.end() &&
                      rows.count <= lease.rows.end() - rows.begin;
  if (lease.shard == kPrepareShard || !inside) {
    return absl::InvalidArgumentError("a worker reported rows that it was not asked for");
  }
  Job& job = JobOf(state, lease);
  RowSet& delivered = job.shards[lease.shard].delivered;
  const int64_t before = delivered.count();
  delivered.Add(rows);
  job.rows_delivered += delivered.count() - before;
  state.workers.at(lease.worker).rows_done += delivered.count() - before;
  return true;
}

Effects ShardDone(State& state, LeaseId id, double now) {
  auto found = state.leases.find(id);
  if (found == state.leases.end()) return {};
  Job& job = JobOf(state, found->second);
  const int index = found->second.shard;
  if (!IsComplete(ShardOf(job, index), index)) return LeaseLost(state, id, now);
  Release(state, id, now);
  MarkDone(job, job.shards[index]);
  return EndIfComplete(state, job, now);
}

Effects LeaseLost(State& state, LeaseId id, double now) {
  if (!state.leases.contains(id)) return {};
  const Lease lease = Release(state, id, now);
  Job& job = JobOf(state, lease);
  Shard& shard = ShardOf(job, lease.shard);
  ++job.retries;
  if (IsComplete(shard, lease.shard)) {  // lost after its last row
    MarkDone(job, shard);
    return EndIfComplete(state, job, now);
  }
  shard.lost_on.push_back(lease.worker);
  if (static_cast<int>(shard.lost_on.size()) >= state.limits.lost_workers_to_poison) {
    const absl::Status error = Poisoned(lease.shard, shard);
    ReturnToWaiting(job, lease.shard);
    return EndJob(state, job, JobPhase::kFailed, error, now);
  }
  ReturnToWaiting(job, lease.shard);
  return {};
}

Effects LeaseGivenBack(State& state, LeaseId id, double now) {
  if (!state.leases.contains(id)) return {};
  const Lease lease = Release(state, id, now);
  Job& job = JobOf(state, lease);
  Shard& shard = ShardOf(job, lease.shard);
  if (IsComplete(shard, lease.shard)) {
    MarkDone(job, shard);
    return EndIfComplete(state, job, now);
  }
  ReturnToWaiting(job, lease.shard);
  return {};
}

Effects LeaseRefusedForNow(State& state, LeaseId id, double now) {
  const auto lease = state.leases.find(id);
  if (lease != state.leases.end()) state.workers.at(lease->second.worker).busy = true;
  return LeaseGivenBack(state, id, now);
}

Effects LeaseRefused(State& state, LeaseId id, int64_t needed_bytes, const absl::Status& error, double now) {
  const auto lease = state.leases.find(id);
  if (lease == state.leases.end()) return {};
  Job& job = JobOf(state, lease->second);
  const Worker& worker = state.workers.at(lease->second.worker);
  const int64_t budget_bytes = worker.details.memory_budget_bytes;
  job.refusals.push_back({worker.key, worker.details.backend, std::max(needed_bytes, budget_bytes + 1)});
  job.refusal = error;
  Effects effects = LeaseGivenBack(state, id, now);
  effects.Append(EndUnfit(state, now));
  return effects;
}

Effects EndUnfit(State& state, double now) {
  Effects effects;
  for (auto& [id, job] : state.jobs) {
    const bool may_be_unfit = !job.refusals.empty() || (!job.backend.empty() && LiveWorkers(state) > 0);
    if (IsEnded(job.phase) || !may_be_unfit) continue;
    const bool fits = std::any_of(state.workers.begin(), state.workers.end(), [&, &job = job](const auto& entry) {
      const Worker& worker = entry.second;
      const bool may_return = now - worker.ended < state.limits.no_worker_seconds;
      return (!IsEnded(worker.phase) || may_return) && Fits(job, worker);
    });
    if (!fits) effects.Append(EndJob(state, job, JobPhase::kFailed, NobodyFits(state, job), now));
  }
  return effects;
}

}  // namespace jacserve::server
