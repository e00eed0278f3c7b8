#include "server/schedule/schedule_metrics.h"

#include <array>
#include <string>

#include "common/metrics.h"

namespace jacserve::server {
namespace {

prometheus::Gauge& JobsGauge(const char* state) {
  return MetricGauge("jobs", "Jobs at hand, by state.", {{"state", state}});
}

prometheus::Gauge& WorkersGauge(const char* state) {
  return MetricGauge("workers", "Workers that are up, by state.", {{"state", state}});
}

prometheus::Counter& EndedCounter(const char* result) {
  return MetricCounter("jobs_ended_total", "Jobs that ended, by result.", {{"result", result}});
}

// All made at once, so that a scrape shows zeros before the first event.
struct ScheduleMetrics {
  prometheus::Gauge& queued = JobsGauge("queued");
  prometheus::Gauge& running = JobsGauge("running");
  prometheus::Counter& done = EndedCounter("done");
  prometheus::Counter& failed = EndedCounter("failed");
  prometheus::Counter& cancelled = EndedCounter("cancelled");
  prometheus::Counter& rows = MetricCounter("rows_delivered_total", "Rows whose chunks were all relayed.");
  prometheus::Counter& retries = MetricCounter("shard_retries_total", "Shards that a worker did not finish.");
  prometheus::Histogram& shard_duration = MetricHistogram(
      "shard_duration_seconds", "Time from a shard's assignment to the end of its stream.", DurationBuckets());
  prometheus::Gauge& waiting = MetricGauge("shards_waiting", "Shards that wait for a worker.");
  prometheus::Gauge& joining = WorkersGauge("joining");
  prometheus::Gauge& ready = WorkersGauge("ready");
  prometheus::Gauge& draining = WorkersGauge("draining");
  prometheus::Gauge& budget_bytes =
      MetricGauge("workers_memory_budget_bytes", "Memory budgets of the workers that are up, together.");
  prometheus::Gauge& peak_bytes =
      MetricGauge("workers_peak_rss_bytes", "Peak resident memory of the workers that are up, together.");

  static ScheduleMetrics& Get() {
    static ScheduleMetrics metrics;
    return metrics;
  }
};

}  // namespace

void CountEndedJob(const Job& job) {
  ScheduleMetrics& metrics = ScheduleMetrics::Get();
  prometheus::Counter& result = job.phase == JobPhase::kDone     ? metrics.done
                                : job.phase == JobPhase::kFailed ? metrics.failed
                                                                 : metrics.cancelled;
  result.Increment();
  metrics.retries.Increment(static_cast<double>(job.retries));
}

void CountRows(int64_t rows) { ScheduleMetrics::Get().rows.Increment(static_cast<double>(rows)); }

void CountShard(double seconds) { ScheduleMetrics::Get().shard_duration.Observe(seconds); }

void SetScheduleGauges(const SchedulerCounts& counts, const std::vector<Worker>& workers) {
  ScheduleMetrics& metrics = ScheduleMetrics::Get();
  metrics.queued.Set(static_cast<double>(counts.jobs_queued));
  metrics.running.Set(static_cast<double>(counts.jobs_running));
  metrics.waiting.Set(static_cast<double>(counts.shards_waiting));
  std::array<int, 5> by_phase{};
  double budget_bytes = 0;
  double peak_bytes = 0;
  for (const Worker& worker : workers) {
    ++by_phase[static_cast<size_t>(worker.phase)];
    if (IsEnded(worker.phase)) continue;
    budget_bytes += static_cast<double>(worker.details.memory_budget_bytes);
    peak_bytes += static_cast<double>(worker.peak_rss_bytes);
  }
  metrics.joining.Set(by_phase[static_cast<size_t>(WorkerPhase::kJoining)]);
  metrics.ready.Set(by_phase[static_cast<size_t>(WorkerPhase::kReady)]);
  metrics.draining.Set(by_phase[static_cast<size_t>(WorkerPhase::kDraining)]);
  metrics.budget_bytes.Set(budget_bytes);
  metrics.peak_bytes.Set(peak_bytes);
}

}  // namespace jacserve::server
