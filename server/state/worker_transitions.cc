// Workers: joining, ready, draining, then gone or lost; and what time does to them.
#include <algorithm>
#include <utility>
#include <vector>

#include "common/status.h"
#include "server/state/transitions.h"

namespace jacserve::server {

WorkerKey AddWorker(State& state, const WorkerDetails& details, double now, Effects& effects) {
  if (std::optional<WorkerKey> earlier = FindWorker(state, details.id)) {
    effects.Append(EndWorker(state, *earlier, WorkerPhase::kLost, now));
  }
  Worker worker;
  worker.key = state.next_worker++;
  worker.details = details;
  worker.joined = worker.heard = now;
  const WorkerKey key = worker.key;
  state.workers.emplace(key, std::move(worker));
  return key;
}

void WorkerReady(State& state, WorkerKey key) {
  auto worker = state.workers.find(key);
  if (worker == state.workers.end() || worker->second.phase != WorkerPhase::kJoining) return;
  worker->second.phase = WorkerPhase::kReady;
}

std::optional<WorkerKey> FindWorker(const State& state, const std::string& id) {
  for (const auto& [key, worker] : state.workers) {
    if (worker.details.id == id && !IsEnded(worker.phase)) return key;
  }
  return std::nullopt;
}

void Heartbeat(State& state, WorkerKey key, bool draining, int64_t peak_rss_bytes, double now) {
  auto found = state.workers.find(key);
  if (found == state.workers.end() || IsEnded(found->second.phase)) return;
  Worker& worker = found->second;
  worker.heard = now;
  worker.peak_rss_bytes = peak_rss_bytes;
  if (draining) worker.phase = WorkerPhase::kDraining;
}

Effects EndWorker(State& state, WorkerKey key, WorkerPhase phase, double now) {
  JACSERVE_CHECK(IsEnded(phase));
  auto found = state.workers.find(key);
  if (found == state.workers.end() || IsEnded(found->second.phase)) return {};
  Worker& worker = found->second;
  worker.phase = phase;
  worker.ended = now;
  Effects effects;
  if (phase == WorkerPhase::kLost) effects.lost.push_back(key);
  if (worker.lease == 0) return effects;
  effects.revoked.push_back(state.leases.at(worker.lease));
  // Leaving in good order blames nobody.
  effects.Append(phase == WorkerPhase::kGone ? LeaseGivenBack(state, worker.lease, now)
                                             : LeaseLost(state, worker.lease, now));
  return effects;
}

Effects Tick(State& state, double now) {
  Effects effects;
  std::vector<WorkerKey> silent;
  for (const auto& [key, worker] : state.workers) {
    if (IsEnded(worker.phase)) continue;
    const bool stuck = worker.lease != 0 && now > state.leases.at(worker.lease).deadline;
    if (stuck || now - worker.heard > state.limits.silence_seconds) silent.push_back(key);
  }
  for (WorkerKey key : silent) effects.Append(EndWorker(state, key, WorkerPhase::kLost, now));
  std::erase_if(state.workers, [&](const auto& entry) {
    return IsEnded(entry.second.phase) && now - entry.second.ended > state.limits.keep_ended_seconds;
  });

  effects.Append(EndUnfit(state, now));
  if (LiveWorkers(state) > 0) {
    state.without_worker_since.reset();
    return effects;
  }
  if (!state.without_worker_since) state.without_worker_since = now;
  std::vector<JobId> waiting;
  for (const auto& [id, job] : state.jobs) {
    const double since = std::max(job.created, *state.without_worker_since);
    if (!IsEnded(job.phase) && now - since > state.limits.no_worker_seconds) waiting.push_back(id);
  }
  for (JobId id : waiting) {
    effects.Append(
        FailJob(state, id, absl::UnavailableError("no worker is there; try again when one has joined"), now));
  }
  return effects;
}

bool HadWorkSince(const State& state, const std::string& id, double since) {
  return std::any_of(state.workers.begin(), state.workers.end(), [&](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.details.id == id && worker.joined >= since && worker.last_job != 0;
  });
}

int LiveWorkers(const State& state) {
  int live = 0;
  for (const auto& [key, worker] : state.workers) live += IsEnded(worker.phase) ? 0 : 1;
  return live;
}

int ReadyWorkersLike(const State& state, WorkerKey like) {
  const std::string& backend = state.workers.at(like).details.backend;
  int ready = 0;
  for (const auto& [key, worker] : state.workers) {
    ready += worker.phase == WorkerPhase::kReady && worker.details.backend == backend ? 1 : 0;
  }
  return ready;
}

int ReadyWorkers(const State& state) {
  int ready = 0;
  for (const auto& [key, worker] : state.workers) ready += worker.phase == WorkerPhase::kReady ? 1 : 0;
  return ready;
}

}  // namespace jacserve::server
