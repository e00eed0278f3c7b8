// The scheduler's figures for Prometheus. In: what happened. Out: metrics of this process.
#pragma once

#include <cstdint>
#include <vector>

#include "server/schedule/scheduler.h"
#include "server/state/state.h"

namespace jacserve::server {

void CountEndedJob(const Job& job);  // its result and retries
void CountRows(int64_t rows);
void CountShard(double seconds);
void SetScheduleGauges(const SchedulerCounts& counts, const std::vector<Worker>& workers);

}  // namespace jacserve::server
