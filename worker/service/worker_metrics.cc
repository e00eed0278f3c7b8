#include "worker/service/worker_metrics.h"

namespace jacserve::worker {

WorkerMetrics& WorkerMetrics::Get() {
  static auto* metrics = new WorkerMetrics{
      .rows = MetricCounter("worker_rows_total", "Rows that were computed and sent."),
      .payload_bytes = MetricCounter("worker_payload_bytes_total", "Bytes of rows that were sent."),
      .engines_made = MetricCounter("worker_engines_made_total",
                                    "Requests that were compiled; others had an engine that was kept."),
      .shard_seconds = MetricHistogram("worker_shard_duration_seconds",
                                       "Time from a shard's request to its end, however it ended.", DurationBuckets()),
      .chunk_seconds = MetricHistogram("worker_chunk_send_duration_seconds",
                                       "Time that the stream took to accept a chunk.", DurationBuckets()),
      .busy = MetricGauge("worker_busy", "1 while a request is being prepared or a shard computed."),
      .memory_budget_bytes = MetricGauge("worker_memory_budget_bytes", "Memory that the worker may use."),
      .resident_memory_bytes = MetricGauge("worker_resident_memory_bytes", "Memory that the worker's process holds."),
      .blob_cache_bytes = MetricGauge("worker_blob_cache_bytes", "Bytes of graphs and tensors that are kept."),
      .registered = MetricGauge("worker_registered", "1 while the coordinator knows this worker."),
  };
  return *metrics;
}

}  // namespace jacserve::worker
