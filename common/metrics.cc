#include "common/metrics.h"

#include <prometheus/exposer.h>
#include <prometheus/registry.h>

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/status.h"

namespace jacserve {
namespace {

// Never destroyed: threads of gRPC may count while the process ends.
const std::shared_ptr<prometheus::Registry>& Registry() {
  static const auto* registry = new std::shared_ptr<prometheus::Registry>(std::make_shared<prometheus::Registry>());
  return *registry;
}

std::string FullName(const std::string& name) { return absl::StrCat("jacserve_", name); }

}  // namespace

prometheus::Counter& MetricCounter(const std::string& name, const std::string& help, const prometheus::Labels& labels) {
  return prometheus::BuildCounter().Name(FullName(name)).Help(help).Register(*Registry()).Add(labels);
}

prometheus::Gauge& MetricGauge(const std::string& name, const std::string& help, const prometheus::Labels& labels) {
  return prometheus::BuildGauge().Name(FullName(name)).Help(help).Register(*Registry()).Add(labels);
}

prometheus::Histogram& MetricHistogram(const std::string& name, const std::string& help,
                                       const std::vector<double>& bucket_ends, const prometheus::Labels& labels) {
  return prometheus::BuildHistogram().Name(FullName(name)).Help(help).Register(*Registry()).Add(labels, bucket_ends);
}

const std::vector<double>& DurationBuckets() {
  static const auto* buckets = new std::vector<double>{1e-4,     4e-4,   1.6e-3, 6.4e-3,  2.56e-2,  1.024e-1,
                                                       4.096e-1, 1.6384, 6.5536, 26.2144, 104.8576, 419.4304};
  return *buckets;
}

grpc::Status FinishRpc(std::string_view method, const absl::Status& status) {
  MetricCounter("rpcs_total", "RPCs that ended, by method and status code.",
                {{"method", std::string(method)}, {"code", absl::StatusCodeToString(status.code())}})
      .Increment();
  return ToGrpc(status);
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address) {
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address, /*num_threads=*/1);
    exposer->RegisterCollectable(Registry());
    return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(exposer)));
  } catch (const std::exception&) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics at '", address, "'; give a free address as host:port"));
  }
}

MetricsServer::MetricsServer(std::unique_ptr<prometheus::Exposer> exposer) : exposer_(std::move(exposer)) {}
MetricsServer::~MetricsServer() = default;

int MetricsServer::port() const {
  const std::vector<int> ports = exposer_->GetListeningPorts();
  JACSERVE_CHECK(!ports.empty());
  return ports.front();
}

}  // namespace jacserve
