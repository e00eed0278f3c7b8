#include "server/schedule/schedule_metrics.h"

#include <map>
#include <string>

#include "common/metrics.h"

namespace jacserve::server {
namespace {

std::string NameOf(WorkerPhase phase) {
  switch (phase) {
    case WorkerPhase::kJoining:
      return "joining";
    case WorkerPhase::kReady:
      return "ready";
    case WorkerPhase::kDraining:
      return "draining";
    case WorkerPhase::kGone:
      return "gone";
    case WorkerPhase::kLost:
      return "lost";
  }
  return "unknown";
}

}  // namespace

void CountEndedJob(const Job& job) {
  const std::string result = job.phase == JobPhase::kDone     ? "done"
                             : job.phase == JobPhase::kFailed ? "failed"
                                                              : "cancelled";
  MetricCounter("jobs_ended_total", "Jobs that ended, by result.", {{"result", result}}).Increment();
  static prometheus::Counter& retries = MetricCounter("shard_retries_total", "Shards that a worker did not finish.");
  retries.Increment(static_cast<double>(job.retries));
}

void CountRows(int64_t rows) {
  static prometheus::Counter& counter = MetricCounter("rows_delivered_total", "Rows whose chunks were all relayed.");
  counter.Increment(static_cast<double>(rows));
}

void CountShard(double seconds) {
  static prometheus::Histogram& histogram = MetricHistogram(
      "shard_duration_seconds", "Time from a shard's assignment to the end of its stream.", DurationBuckets());
  histogram.Observe(seconds);
}

void SetScheduleGauges(const SchedulerCounts& counts, const std::vector<Worker>& workers) {
  static prometheus::Gauge& queued = MetricGauge("jobs", "Jobs at hand, by state.", {{"state", "queued"}});
  static prometheus::Gauge& running = MetricGauge("jobs", "Jobs at hand, by state.", {{"state", "running"}});
  static prometheus::Gauge& waiting = MetricGauge("shards_waiting", "Shards that wait for a worker.");
  static prometheus::Gauge& budget =
      MetricGauge("workers_memory_budget_bytes", "Memory budgets of the workers that are up, together.");
  static prometheus::Gauge& peak =
      MetricGauge("workers_peak_rss_bytes", "Peak resident memory of the workers that are up, together.");
  queued.Set(static_cast<double>(counts.jobs_queued));
  running.Set(static_cast<double>(counts.jobs_running));
  waiting.Set(static_cast<double>(counts.shards_waiting));
  std::map<std::string, int> by_state;
  for (WorkerPhase phase : {WorkerPhase::kJoining, WorkerPhase::kReady, WorkerPhase::kDraining})
    by_state[NameOf(phase)];
  double budget_bytes = 0;
  double peak_bytes = 0;
  for (const Worker& worker : workers) {
    if (IsEnded(worker.phase)) continue;
    ++by_state[NameOf(worker.phase)];
    budget_bytes += static_cast<double>(worker.details.memory_budget_bytes);
    peak_bytes += static_cast<double>(worker.peak_rss_bytes);
  }
  budget.Set(budget_bytes);
  peak.Set(peak_bytes);
  for (const auto& [state, count] : by_state) {
    MetricGauge("workers", "Workers that are up, by state.", {{"state", state}}).Set(count);
  }
}

}  // namespace jacserve::server
