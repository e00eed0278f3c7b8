// Which worker may work on what.
#include "server/state/fitness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/size_text.h"

namespace jacserve::server {
namespace {

bool WasLostOn(const Shard& shard, WorkerKey worker) {
  return std::find(shard.lost_on.begin(), shard.lost_on.end(), worker) != shard.lost_on.end();
}

template <class Condition>
bool AnyReady(const State& state, const Condition& condition) {
  return std::any_of(state.workers.begin(), state.workers.end(), [&](const auto& entry) {
    return entry.second.phase == WorkerPhase::kReady && condition(entry.second);
  });
}

}  // namespace

bool Fits(const Job& job, const Worker& worker) {
  if (!job.backend.empty() && job.backend != worker.details.backend) return false;
  // Budgets of different backends are of different memories.
  return std::none_of(job.refusals.begin(), job.refusals.end(), [&](const Refusal& refusal) {
    return refusal.worker == worker.key ||
           (refusal.backend == worker.details.backend && worker.details.memory_budget_bytes < refusal.needed_bytes);
  });
}

bool MayTake(const State& state, const Job& job, const Shard& shard, const Worker& worker) {
  if (!Fits(job, worker)) return false;
  const auto untried = [&](const Worker& other) { return !WasLostOn(shard, other.key) && Fits(job, other); };
  if (WasLostOn(shard, worker.key)) return !AnyReady(state, untried);
  return !job.backend.empty() || worker.details.gpu || !AnyReady(state, [&](const Worker& other) {
    return other.details.gpu && other.lease == 0 && !other.busy && untried(other);
  });
}

absl::Status NobodyFits(const State& state, const Job& job) {
  if (job.refusals.empty()) {
    return absl::UnavailableError(absl::StrCat("the ", job.backend, " workers that began this have left, and rows of ",
                                               "another backend have other bits; try again"));
  }
  const Worker* largest = nullptr;
  std::set<int64_t> budgets;
  for (const auto& [key, worker] : state.workers) {
    if (IsEnded(worker.phase)) continue;
    budgets.insert(worker.details.memory_budget_bytes);
    if (largest != nullptr && worker.details.memory_budget_bytes <= largest->details.memory_budget_bytes) continue;
    largest = &worker;
  }
  if (budgets.size() < 2 || !absl::IsResourceExhausted(job.refusal)) return job.refusal;
  return absl::Status(job.refusal.code(),
                      absl::StrCat(job.refusal.message(), "; the largest among the workers is that of ",
                                   largest->details.id, ", ", SizeText(largest->details.memory_budget_bytes)));
}

}  // namespace jacserve::server
