#include "server/schedule/scheduler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/backend_status.h"
#include "common/budget_status.h"
#include "common/channel.h"
#include "common/status.h"
#include "server/schedule/schedule_metrics.h"
#include "server/schedule/worker_runner.h"

namespace jacserve::server {
namespace {

constexpr auto kHousekeepingInterval = std::chrono::milliseconds(100);
constexpr auto kAnyWorkerWait = std::chrono::seconds(10);

// Errors that any worker would answer: the request or the model is at fault, and trying again is in vain.
bool IsFinal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

// Whether a worker could take something now.
bool WorkWaits(const State& state) {
  return std::any_of(state.jobs.begin(), state.jobs.end(), [](const auto& entry) {
    const Job& job = entry.second;
    return !IsEnded(job.phase) && (job.prepare.phase == ShardPhase::kWaiting || !job.waiting.empty());
  });
}

absl::Status NoWorker() {
  return absl::UnavailableError("no worker has joined this server; start one, or try again when one is there");
}

}  // namespace

Scheduler::Scheduler(SchedulerOptions options) : options_(std::move(options)) {
  state_.limits = options_.limits;
  state_.limits.silence_seconds = 3 * std::chrono::duration<double>(options_.heartbeat_interval).count();
  UpdateMetrics();
  housekeeper_ = std::thread([this] { Housekeeping(); });
}

Scheduler::~Scheduler() { Stop(); }

double Scheduler::Now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Scheduler::Carry(std::unique_lock<std::mutex> lock, Effects effects) {
  std::vector<std::pair<RunnerPtr, LeaseId>> cancel;
  std::vector<RunnerPtr> retire;
  for (const Lease& lease : effects.revoked) {
    if (auto runner = runners_.find(lease.worker); runner != runners_.end())
      cancel.emplace_back(runner->second, lease.id);
  }
  for (JobId id : effects.ended) {
    const Job& job = state_.jobs.at(id);
    CountEndedJob(job);
    if (auto active = jobs_.find(id); active != jobs_.end()) active->second->queue().Close(job.error);
  }
  for (auto it = runners_.begin(); it != runners_.end();) {
    auto worker = state_.workers.find(it->first);
    const bool over = worker == state_.workers.end() || IsEnded(worker->second.phase);
    if (over) {
      retire.push_back(it->second);
      retired_.push_back(it->second);
    }
    it = over ? runners_.erase(it) : std::next(it);
  }
  for (WorkerKey key : effects.lost) spdlog::warn("worker {} is lost", state_.workers.at(key).details.id);
  if (!retire.empty() || WorkWaits(state_)) changed_.notify_all();
  lock.unlock();
  for (const auto& [runner, lease] : cancel) runner->Cancel(lease);
  for (const RunnerPtr& runner : retire) runner->Retire();
}

absl::StatusOr<Scheduler::Submitted> Scheduler::Submit(JobRequest request, std::shared_ptr<const void> keep_alive) {
  auto job = std::make_shared<ActiveJob>(std::move(request), options_.queue_bytes, std::move(keep_alive));
  std::unique_lock lock(mutex_);
  if (draining_ || stopping_) return absl::UnavailableError("the server is shutting down; try again in a minute");
  if (LiveWorkers(state_) == 0 && !options_.expects_workers) return NoWorker();
  if (static_cast<int>(jobs_.size()) >= options_.max_jobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server already has ", jobs_.size(), " jobs, as many as it takes; try again later"));
  }
  const JobId id = AddJob(state_, Now());
  jobs_.emplace(id, job);
  Carry(std::move(lock), {});
  return Submitted{id, std::move(job)};
}

v1::JacobianSummary Scheduler::SummaryOf(const Submitted& submitted) const {
  v1::JacobianSummary summary = submitted.job->Summary();
  std::lock_guard lock(mutex_);
  const Job& job = state_.jobs.at(submitted.id);
  summary.set_rows(job.rows_delivered);
  summary.set_shards(static_cast<int64_t>(job.shards.size()));
  summary.set_shards_retried(job.retries);
  return summary;
}

void Scheduler::Release(const Submitted& submitted) {
  std::unique_lock lock(mutex_);
  Effects effects = CancelJob(state_, submitted.id, Now());
  Carry(std::move(lock), std::move(effects));
  lock = std::unique_lock(mutex_);
  jobs_.erase(submitted.id);
  RemoveJob(state_, submitted.id);
}

absl::StatusOr<ReadyWorker> Scheduler::AnyWorker(const std::set<WorkerKey>& tried,
                                                 const std::function<bool()>& cancelled) {
  const auto deadline = std::chrono::steady_clock::now() + kAnyWorkerWait;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Worker* best = nullptr;
    for (const auto& [key, worker] : state_.workers) {
      if (worker.phase != WorkerPhase::kReady || tried.contains(key)) continue;
      if (best == nullptr || (best->lease != 0 && worker.lease == 0)) best = &worker;
    }
    if (best != nullptr) return ReadyWorker{best->key, runners_.at(best->key)->channel()};
    if (LiveWorkers(state_) == 0 && !options_.expects_workers) return NoWorker();
    if (cancelled()) return absl::CancelledError("the call was cancelled");
    if (std::chrono::steady_clock::now() > deadline) return NoWorker();
    changed_.wait_for(lock, kHousekeepingInterval);
  }
  return absl::UnavailableError("the server is shutting down; try again in a minute");
}

absl::Status Scheduler::Register(const WorkerDetails& details) {
  PeerAccess access{.token = details.call_token};
  if (details.tls) access.tls = options_.worker_tls;
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, OpenChannel(details.address, access));
  std::unique_lock lock(mutex_);
  if (stopping_) return absl::UnavailableError("the server is shutting down");
  Effects effects;
  const WorkerKey key = AddWorker(state_, details, Now(), effects);
  runners_.emplace(key, std::make_shared<WorkerRunner>(*this, key, std::move(channel)));
  spdlog::info("worker {} joins: {}, {} threads", details.id, details.backend, details.threads);
  Carry(std::move(lock), std::move(effects));
  return absl::OkStatus();
}

bool Scheduler::Heartbeat(const std::string& worker_id, bool draining, int64_t peak_rss_bytes) {
  std::lock_guard lock(mutex_);
  const std::optional<WorkerKey> key = FindWorker(state_, worker_id);
  if (!key) return false;
  server::Heartbeat(state_, *key, draining, peak_rss_bytes, Now());
  return true;
}

void Scheduler::Leave(const std::string& worker_id) {
  std::unique_lock lock(mutex_);
  const std::optional<WorkerKey> key = FindWorker(state_, worker_id);
  if (!key) return;
  spdlog::info("worker {} leaves", worker_id);
  Carry(std::move(lock), EndWorker(state_, *key, WorkerPhase::kGone, Now()));
}

void Scheduler::WorkerLost(const std::string& worker_id) {
  std::unique_lock lock(mutex_);
  if (const std::optional<WorkerKey> key = FindWorker(state_, worker_id)) {
    Carry(std::move(lock), EndWorker(state_, *key, WorkerPhase::kLost, Now()));
  }
}

bool Scheduler::HadWorkSince(const std::string& worker_id, std::chrono::steady_clock::time_point since) const {
  std::lock_guard lock(mutex_);
  return server::HadWorkSince(state_, worker_id, std::chrono::duration<double>(since.time_since_epoch()).count());
}

void Scheduler::WorkerLost(WorkerKey key) {
  std::unique_lock lock(mutex_);
  Carry(std::move(lock), EndWorker(state_, key, WorkerPhase::kLost, Now()));
}

void Scheduler::RunnerConnected(WorkerKey key) {
  std::lock_guard lock(mutex_);
  WorkerReady(state_, key);
  changed_.notify_all();
}

std::optional<Work> Scheduler::NextWork(WorkerKey key) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    auto worker = state_.workers.find(key);
    if (worker == state_.workers.end() || IsEnded(worker->second.phase)) return std::nullopt;
    if (std::optional<Lease> lease = Assign(state_, key, Now())) {
      Work work{*lease, jobs_.at(lease->job), worker->second.details.id};
      if (lease->shard == kPrepareShard) work.job->set_workers(ReadyWorkersLike(state_, key));
      if (WorkWaits(state_)) changed_.notify_all();  // what was left for this worker alone is so no longer
      return work;
    }
    changed_.wait(lock);
  }
  return std::nullopt;
}

bool Scheduler::Alive(LeaseId lease) {
  std::lock_guard lock(mutex_);
  return Progress(state_, lease, Now());
}

absl::StatusOr<bool> Scheduler::RowsDone(LeaseId lease, RowRange rows) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const bool alive, RowsDelivered(state_, lease, rows, Now()));
  if (alive) CountRows(rows.count);
  return alive;
}

bool Scheduler::ShouldGiveBack(const Lease& lease, double blocked_seconds) {
  if (blocked_seconds < options_.give_back_seconds) return false;
  std::lock_guard lock(mutex_);
  return OtherJobWaits(state_, lease.worker, lease.job);
}

std::optional<Lease> Scheduler::GoOn(const Work& work) {
  const std::vector<RowRange> shards = work.job->Plan();
  if (shards.size() != 1) return std::nullopt;
  const double now = Now();
  std::lock_guard lock(mutex_);
  const std::optional<Lease> lease = PrepareDoneAndOn(state_, work.lease.id, shards.front(), now);
  if (!lease) return std::nullopt;
  CountShard(now - work.lease.since);
  work.job->AddRun(work.worker_id, {}, work.lease.since, now, true);
  return lease;
}

void Scheduler::Finish(const Work& work, const RelayResult& result) {
  if (result.summary) work.job->AddSummary(work.worker_id, *result.summary);
  const double now = Now();
  std::unique_lock lock(mutex_);
  Effects effects = FinishLocked(work, result);
  if (result.end != RelayEnd::kBusy) {  // else it had no turn
    work.job->AddRun(work.worker_id, work.lease.rows, work.lease.since, now,
                     result.end == RelayEnd::kComplete && IsDone(work.lease));
  }
  Carry(std::move(lock), std::move(effects));
}

// Some workers end a stream in order, but not with all its rows.
bool Scheduler::IsDone(const Lease& lease) const {
  const auto job = state_.jobs.find(lease.job);
  return job != state_.jobs.end() &&
         (lease.shard == kPrepareShard || job->second.shards[lease.shard].phase == ShardPhase::kDone);
}

Effects Scheduler::FinishLocked(const Work& work, const RelayResult& result) {
  const double now = Now();
  const LeaseId lease = work.lease.id;
  if (!state_.leases.contains(lease)) return {};  // void: its job or worker has ended meanwhile
  if (result.end != RelayEnd::kBusy) state_.workers.at(work.lease.worker).busy = false;
  switch (result.end) {
    case RelayEnd::kComplete:
    case RelayEnd::kRowsFollow:
      CountShard(now - work.lease.since);
      return work.lease.shard == kPrepareShard ? PrepareDone(state_, lease, work.job->Plan(), now)
                                               : ShardDone(state_, lease, now);
    case RelayEnd::kGivenBack:
      SetStalled(state_, work.lease.job, true);
      return LeaseGivenBack(state_, lease, now);
    case RelayEnd::kBusy:
      return LeaseRefusedForNow(state_, lease, now);
    case RelayEnd::kStopped:
      return LeaseGivenBack(state_, lease, now);
    case RelayEnd::kRejected:
      return FailJob(state_, work.lease.job, result.status, now);
    case RelayEnd::kFailed:
      return FailedLocked(work, result.status);
  }
  return {};
}

Effects Scheduler::FailedLocked(const Work& work, const absl::Status& status) {
  const double now = Now();
  // In its words alone: what it says for the coordinator is no client's affair.
  const absl::Status words(status.code(), status.message());
  if (IsWrongBackend(status)) return LeaseRefused(state_, work.lease.id, kNoBudget, words, now);
  if (IsFinal(status)) return FailJob(state_, work.lease.job, words, now);
  if (absl::IsResourceExhausted(status)) {
    return LeaseRefused(state_, work.lease.id, SmallestBudgetOf(status).value_or(0), words, now);
  }
  spdlog::warn("worker {} failed on rows {} to {}: {}", work.worker_id, work.lease.rows.begin, work.lease.rows.end(),
               status.ToString());
  // The connection broke; if the worker lives, its next heartbeat makes it register again.
  if (absl::IsUnavailable(status)) return EndWorker(state_, work.lease.worker, WorkerPhase::kLost, now);
  return LeaseLost(state_, work.lease.id, now);
}

SchedulerCounts Scheduler::Counts() const {
  std::lock_guard lock(mutex_);
  SchedulerCounts counts;
  for (const auto& [id, job] : state_.jobs) {
    counts.jobs_queued += job.phase == JobPhase::kQueued ? 1 : 0;
    counts.jobs_running += job.phase == JobPhase::kRunning ? 1 : 0;
    counts.shards_waiting += static_cast<int64_t>(job.waiting.size());
  }
  counts.jobs_open = static_cast<int64_t>(jobs_.size());
  counts.workers_ready = ReadyWorkers(state_);
  counts.draining = draining_;
  return counts;
}

std::vector<Worker> Scheduler::Workers() const {
  std::lock_guard lock(mutex_);
  std::vector<Worker> workers;
  for (const auto& [key, worker] : state_.workers) workers.push_back(worker);
  return workers;
}

void Scheduler::Drain() {
  std::lock_guard lock(mutex_);
  draining_ = true;
}

void Scheduler::Stop() {
  {
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    stop_.notify_all();
    changed_.notify_all();
    Effects effects;
    for (const auto& [id, job] : jobs_) {
      effects.Append(FailJob(state_, id, absl::UnavailableError("the server shut down; try again in a minute"), Now()));
    }
    for (const auto& [key, runner] : runners_) effects.Append(EndWorker(state_, key, WorkerPhase::kGone, Now()));
    Carry(std::move(lock), std::move(effects));
  }
  housekeeper_.join();
  std::vector<RunnerPtr> retired;
  {
    std::lock_guard lock(mutex_);
    retired.swap(retired_);
  }
  for (const RunnerPtr& runner : retired) runner->Join();
}

void Scheduler::Housekeeping() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      stop_.wait_for(lock, kHousekeepingInterval, [&] { return stopping_; });
      if (stopping_) return;
      WakeStalledJobs();
      Effects effects = Tick(state_, Now());
      Carry(std::move(lock), std::move(effects));
    }
    ReapRunners();
    UpdateMetrics();
  }
}

void Scheduler::WakeStalledJobs() {
  for (const auto& [id, job] : jobs_) {
    auto state = state_.jobs.find(id);
    if (state != state_.jobs.end() && state->second.stalled && job->queue().Drained()) SetStalled(state_, id, false);
  }
}

void Scheduler::ReapRunners() {
  std::vector<RunnerPtr> over;
  {
    std::lock_guard lock(mutex_);
    const auto running = [](const RunnerPtr& runner) { return !runner->finished(); };
    const auto first_over = std::partition(retired_.begin(), retired_.end(), running);
    std::move(first_over, retired_.end(), std::back_inserter(over));
    retired_.erase(first_over, retired_.end());
  }
  for (const RunnerPtr& runner : over) runner->Join();
}

void Scheduler::UpdateMetrics() const { SetScheduleGauges(Counts(), Workers()); }

}  // namespace jacserve::server
