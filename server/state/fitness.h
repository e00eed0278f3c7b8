// Which worker may work on what.
// In: the state. Out: yes or no, and why nobody may. Nothing here changes anything.
#pragma once

#include "absl/status/status.h"
#include "server/state/state.h"

namespace jacserve::server {

// Whether nothing is known that speaks against the worker: it has not refused the job, nor has one like it with as much
// memory, and the job's first rows did not come from another backend, whose bits are others.
bool Fits(const Job& job, const Worker& worker);

// Whether this worker may have this shard of this job now: a shard goes back to a worker that failed on it only when no
// other is there to try, and a new job goes to an idle GPU where there is one.
bool MayTake(const State& state, const Job& job, const Shard& shard, const Worker& worker);

// Why a job that no worker fits must end. In the last refusal's words and, where there are several budgets, the
// largest.
absl::Status NobodyFits(const State& state, const Job& job);

}  // namespace jacserve::server
