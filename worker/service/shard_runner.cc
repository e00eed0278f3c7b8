#include "worker/service/shard_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/budget_status.h"
#include "common/digest.h"
#include "common/process.h"
#include "common/proto_convert.h"
#include "common/size_text.h"
#include "common/status.h"
#include "worker/engine/devices.h"
#include "worker/service/describe.h"
#include "worker/service/worker_metrics.h"

namespace jacserve::worker {
namespace {

std::string KeyOf(const v1::JacobianSpec& spec) {
  const std::string text = spec.SerializeAsString();
  return Sha256Of(std::as_bytes(std::span(text)));
}

absl::Status Busy() { return absl::FailedPreconditionError("this worker is busy with another request; try again"); }

Effort Difference(const Effort& now, const Effort& before) {
  return {.linearize = now.linearize - before.linearize,
          .pullback = now.pullback - before.pullback,
          .rows = now.rows - before.rows,
          .send = now.send - before.send,
          .loss = {.underflows = now.loss.underflows - before.loss.underflows,
                   .overflows = now.loss.overflows - before.loss.overflows}};
}

}  // namespace

// Held by the one call that may use the engine.
class ShardRunner::BusyLock {
 public:
  explicit BusyLock(std::mutex& mutex) : lock_(mutex, std::try_to_lock) {
    if (lock_.owns_lock()) WorkerMetrics::Get().busy.Set(1);
  }
  ~BusyLock() {
    if (lock_.owns_lock()) WorkerMetrics::Get().busy.Set(0);
  }
  bool owned() const { return lock_.owns_lock(); }

 private:
  std::unique_lock<std::mutex> lock_;
};

ShardRunner::ShardRunner(const RunnerOptions& options, BlobCache& blobs, EngineFactory make_engine,
                         GraphReporter report)
    : options_(options),
      blobs_(blobs),
      make_engine_(std::move(make_engine)),
      report_(std::move(report)),
      reader_(blobs, ProblemShare(options.memory_budget_bytes)),
      kept_(options.backend == BackendKind::kCuda ? 0 : KeptEnginesShare(EngineBudget())),
      idle_(options.idle_release, [this] { ReleaseWhenIdle(); }) {}

absl::StatusOr<PreparedJob> ShardRunner::Prepare(const v1::JacobianSpec& spec) {
  const BusyLock lock(busy_);
  if (!lock.owned()) return Busy();
  idle_.Touch();
  RETURN_IF_ERROR(Judge(UseEngineFor(spec)));
  PreparedJob job;
  job.header = HeaderOf(current_.engine->layout());
  absl::StatusOr<std::vector<std::byte>> value = current_.engine->Value();
  RETURN_IF_ERROR(Judge(value.status()));
  job.value = *std::move(value);
  for (const BlockInfo& block : current_.engine->layout().blocks)
    job.row_bytes += block.connected ? block.row_bytes : 0;
  return job;
}

absl::StatusOr<Effort> ShardRunner::Compute(const v1::JacobianSpec& spec, RowRange rows, RowConsumer& consumer,
                                            const std::function<bool()>& cancelled) {
  const BusyLock lock(busy_);
  if (!lock.owned()) return Busy();
  idle_.Touch();
  RETURN_IF_ERROR(Judge(UseEngineFor(spec)));
  RETURN_IF_ERROR(Judge(current_.engine->ComputeRows(rows, consumer, cancelled)));
  const Effort now = current_.engine->effort();
  return Difference(now, std::exchange(current_.reported, now));
}

absl::StatusOr<v1::ModelDescription> ShardRunner::Describe(const std::string& graph_sha256) {
  // A small graph fits beside whatever is being computed; a large one needs the engine's memory while it is read.
  absl::StatusOr<LoadedGraph> loaded = reader_.LoadGraph(graph_sha256, blobs_.capacity_bytes() / 4);
  if (absl::IsResourceExhausted(loaded.status())) {
    const BusyLock lock(busy_);
    if (!lock.owned()) return absl::UnavailableError("this worker is busy and the graph is large; try again");
    DropEngines();
    loaded = reader_.LoadGraph(graph_sha256, ProblemShare(options_.memory_budget_bytes));
  }
  if (!loaded.ok()) return loaded.status();
  return DescribeGraph(*loaded->graph, report_(*loaded->graph));
}

absl::Status ShardRunner::UseEngineFor(const v1::JacobianSpec& spec) {
  std::string key = KeyOf(spec);
  if (current_.engine != nullptr && current_.key == key) return absl::OkStatus();
  const int64_t held_bytes = current_.bytes + kept_.bytes();
  std::optional<KeptEngine> kept = kept_.Take(key);
  if (current_.engine != nullptr) kept_.Keep(std::exchange(current_, {}));
  if (kept) {
    current_ = *std::move(kept);
    return absl::OkStatus();
  }
  // The next one allocates other sizes: what is free now would stay resident beside it.
  if (kept_.bytes() < held_bytes) ReleaseFreeMemory();
  ASSIGN_OR_RETURN(current_, MakeEngine(spec, std::move(key)));
  return absl::OkStatus();
}

absl::StatusOr<KeptEngine> ShardRunner::MakeEngine(const v1::JacobianSpec& spec, std::string key) {
  const bool on_host = options_.backend != BackendKind::kCuda;
  kept_.ShrinkTo(EngineBudget() - StatedTensorBytes(spec));
  ASSIGN_OR_RETURN(LoadedProblem loaded, reader_.Load(spec));
  WorkerMetrics::Get().blob_cache_bytes.Set(static_cast<double>(blobs_.size_bytes()));
  EngineOptions options{.backend = options_.backend,
                        .memory_budget_bytes = EngineBudget() - (on_host ? loaded.host_bytes : 0),
                        .threads = options_.threads};
  options.memory_budget_bytes = std::max<int64_t>(options.memory_budget_bytes, 1);
  KeptEngine made{.key = std::move(key), .bytes = loaded.host_bytes};
  options.before_allocation = [&](int64_t bytes) {
    made.bytes += bytes;
    kept_.ShrinkTo(EngineBudget() - made.bytes);
  };
  absl::StatusOr<std::unique_ptr<Engine>> engine = make_engine_(std::move(loaded.problem), options);
  if (const std::optional<int64_t> smallest = SmallestBudgetOf(engine.status()); smallest && on_host) {
    return BudgetTooSmall(options_.memory_budget_bytes, WorkerBudgetFor(*smallest + loaded.host_bytes),
                          NeededByOf(engine.status()));
  }
  if (!engine.ok()) return engine.status();
  WorkerMetrics::Get().engines_made.Increment();
  made.engine = *std::move(engine);
  return made;
}

int64_t ShardRunner::EngineBudget() const {
  return options_.backend == BackendKind::kCuda ? options_.gpu_budget_bytes
                                                : options_.memory_budget_bytes - blobs_.capacity_bytes();
}

absl::Status ShardRunner::Judge(absl::Status status) {
  if (status.ok() || absl::IsCancelled(status) || absl::IsOutOfRange(status)) {
    idle_.Touch();
    return status;
  }
  current_ = {};
  ReleaseFreeMemory();
  if (IsDeviceLost(status) && options_.on_device_lost) options_.on_device_lost(status);
  return status;
}

void ShardRunner::ReleaseWhenIdle() {
  const BusyLock lock(busy_);
  if (!lock.owned() || current_.engine == nullptr) return;
  DropEngines();
  if (options_.on_idle) options_.on_idle();
}

void ShardRunner::DropEngines() {
  current_ = {};
  kept_.ShrinkTo(0);
  ReleaseFreeMemory();
}

namespace {

v1::Precision PrecisionOf(const JacobianLayout& layout) {
  if (layout.values) return *layout.values == HalfFormat::kFloat16 ? v1::PRECISION_FP16 : v1::PRECISION_BF16;
  if (layout.tf32) return v1::PRECISION_TF32;
  return layout.dtype == DType::kFloat64 ? v1::PRECISION_FP64 : v1::PRECISION_FP32;
}

}  // namespace

v1::JacobianHeader ShardRunner::HeaderOf(const JacobianLayout& layout) const {
  v1::JacobianHeader header;
  header.mutable_target_shape()->Assign(layout.target_shape.begin(), layout.target_shape.end());
  header.set_value_dtype(ToProto(layout.dtype));
  for (const BlockInfo& info : layout.blocks) {
    v1::Block& block = *header.add_blocks();
    block.set_name(info.name);
    block.mutable_shape()->Assign(info.shape.begin(), info.shape.end());
    block.set_dtype(ToProto(layout.dtype));
    block.set_status(info.connected ? v1::BLOCK_STATUS_CONNECTED : v1::BLOCK_STATUS_UNCONNECTED);
  }
  *header.mutable_rows() = ToProto(RowRange{0, layout.rows});
  header.set_precision(PrecisionOf(layout));
  header.set_encoding(v1::ENCODING_DENSE);
  header.set_backend(std::string(NameOf(options_.backend)));
  header.set_device(options_.device.name.empty() ? ProcessorName() : options_.device.name);
  header.set_row_tile(layout.row_tile);
  header.set_flops_per_row(layout.flops_per_row);
  header.mutable_notices()->Assign(layout.notices.begin(), layout.notices.end());
  return header;
}

}  // namespace jacserve::worker
