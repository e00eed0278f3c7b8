// Figures for Prometheus: one registry per process, served over HTTP where a flag says so.
// In: counts as they happen. Out: /metrics at an address. Every name gets the prefix "jacserve_"; units are base units
// (seconds, bytes) and end the name; counters end in "_total"; no label names a job.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/status.h"

namespace prometheus {
class Exposer;
class Registry;
}  // namespace prometheus

namespace jacserve {

// The metric of this name and these labels, made at the first call; valid until the process ends. Keep the reference:
// a call takes a lock. The same name must always come with the same help and type.
prometheus::Counter& MetricCounter(const std::string& name, const std::string& help,
                                   const prometheus::Labels& labels = {});
prometheus::Gauge& MetricGauge(const std::string& name, const std::string& help, const prometheus::Labels& labels = {});
prometheus::Histogram& MetricHistogram(const std::string& name, const std::string& help,
                                       const std::vector<double>& bucket_ends, const prometheus::Labels& labels = {});

// Bucket ends for durations in seconds: powers of 4 from 100 microseconds to about 7 minutes.
const std::vector<double>& DurationBuckets();

// How an RPC ended, counted as rpcs_total{method, code}, as gRPC wants it: `return FinishRpc("Upload", status);`
grpc::Status FinishRpc(std::string_view method, const absl::Status& status);

// Serves this process's metrics until destroyed.
class MetricsServer {
 public:
  // `address`: host:port; port 0 takes a free one. Unavailable: cannot listen there.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address);
  ~MetricsServer();

  int port() const;

 private:
  explicit MetricsServer(std::unique_ptr<prometheus::Exposer> exposer);
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace jacserve
