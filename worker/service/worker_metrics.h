// What a worker counts for Prometheus; see common/metrics.h.
#pragma once

#include "common/metrics.h"

namespace jacserve::worker {

struct WorkerMetrics {
  prometheus::Counter& rows;
  prometheus::Counter& payload_bytes;
  prometheus::Counter& engines_made;
  prometheus::Histogram& shard_seconds;
  prometheus::Histogram& chunk_seconds;
  prometheus::Gauge& busy;
  prometheus::Gauge& memory_budget_bytes;
  prometheus::Gauge& resident_memory_bytes;
  prometheus::Gauge& blob_cache_bytes;
  prometheus::Gauge& registered;

  static WorkerMetrics& Get();
};

}  // namespace jacserve::worker
