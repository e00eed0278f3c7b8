// One request at a time on one engine: compiled once for all shards of a job, and kept for the same request to come
// again, within the memory budget.
// In: a spec, and rows. Out: the header and the target's value, or the rows to a consumer.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "jacserve/v1/types.pb.h"
#include "worker/engine/devices.h"
#include "worker/engine/engine.h"
#include "worker/service/blob_cache.h"
#include "worker/service/idle_watch.h"
#include "worker/service/kept_engines.h"
#include "worker/service/spec_reader.h"

namespace jacserve::worker {

using EngineFactory =
    std::function<absl::StatusOr<std::unique_ptr<Engine>>(JacobianProblem problem, const EngineOptions& options)>;
using GraphReporter = std::function<GraphReport(const Graph& graph)>;

struct RunnerOptions {
  int64_t memory_budget_bytes = int64_t{2} << 30;  // of the host
  int threads = 1;
  BackendKind backend = BackendKind::kCpu;
  ComputeDevice device;
  int64_t gpu_budget_bytes = 0;               // for engines, with kCuda; elsewhere they share the host's budget
  std::chrono::milliseconds idle_release{0};  // the engine goes when no call came for so long; 0: it stays
  std::function<void()> on_idle;              // after it went
  std::function<void(const absl::Status&)> on_device_lost;  // this process can compute no more
};

// How the budget is shared: an eighth keeps graphs and tensors for requests to come (the capacity of the cache), the
// graph and the tensors of the request at hand may take up to a half each, and the engine has the rest. The engine
// holds weights a second time, so a half is never what is short. Engines of earlier requests have up to an eighth of
// what the engine leaves unused: they are gone before it needs it, so that no request is answered otherwise for them. A
// GPU, which may have less memory than its budget, keeps none.
constexpr int64_t BlobCacheShare(int64_t memory_budget_bytes) { return memory_budget_bytes / 8; }
constexpr int64_t ProblemShare(int64_t memory_budget_bytes) { return memory_budget_bytes / 2; }
constexpr int64_t KeptEnginesShare(int64_t memory_budget_bytes) { return memory_budget_bytes / 8; }
// The smallest budget of which the cache leaves this much.
constexpr int64_t WorkerBudgetFor(int64_t bytes) { return (bytes * 8 + 6) / 7; }

struct PreparedJob {
  v1::JacobianHeader header;
  std::vector<std::byte> value;  // the whole target
  int64_t row_bytes = 0;         // of all connected blocks
};

// Safe to call from several threads; all but one are told FailedPrecondition.
class ShardRunner {
 public:
  ShardRunner(const RunnerOptions& options, BlobCache& blobs, EngineFactory make_engine, GraphReporter report);

  // Errors: SpecReader's, the engine's, FailedPrecondition while another call runs.
  absl::StatusOr<PreparedJob> Prepare(const v1::JacobianSpec& spec);

  // What was spent since the last shard of the same job, what Prepare took included.
  // Errors: as Prepare, the consumer's, OutOfRange, Cancelled.
  absl::StatusOr<Effort> Compute(const v1::JacobianSpec& spec, RowRange rows, RowConsumer& consumer,
                                 const std::function<bool()>& cancelled);

  // Errors: SpecReader's. Unavailable: the graph is large and a shard is being computed.
  absl::StatusOr<v1::ModelDescription> Describe(const std::string& graph_sha256);

 private:
  class BusyLock;

  absl::Status UseEngineFor(const v1::JacobianSpec& spec);
  // Of a request whose engine was not kept.
  absl::StatusOr<KeptEngine> MakeEngine(const v1::JacobianSpec& spec, std::string key);
  int64_t EngineBudget() const;  // without what the request's graph and tensors take of the host's memory
  void DropEngines();
  void ReleaseWhenIdle();
  // Hands `status` on. After an error of the engine's own the next request gets a new one, if there is still a device.
  absl::Status Judge(absl::Status status);
  v1::JacobianHeader HeaderOf(const JacobianLayout& layout) const;

  const RunnerOptions options_;
  BlobCache& blobs_;
  const EngineFactory make_engine_;
  const GraphReporter report_;
  SpecReader reader_;

  std::mutex busy_;
  KeptEngine current_;  // of the last request
  KeptEngines kept_;    // of those before
  IdleWatch idle_;      // last: it uses what is above
};

}  // namespace jacserve::worker
