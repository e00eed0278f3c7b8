// Compiles a problem, plans its memory, and drives threads over tiles of rows.
#include "worker/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "common/backend_status.h"
#include "common/budget_status.h"
#include "common/status.h"
#include "worker/backend/cpu/cpu_backend.h"
#include "worker/backend/cuda/cuda_backend.h"
#include "worker/engine/backend_threads.h"
#include "worker/engine/check_problem.h"
#include "worker/engine/devices.h"
#include "worker/engine/integer_bounds.h"
#include "worker/engine/memory_plan.h"
#include "worker/engine/narrowed_engine.h"
#include "worker/engine/needed_by.h"
#include "worker/engine/pushforward_tile.h"
#include "worker/engine/tile.h"

namespace jacserve::worker {
namespace {

constexpr int64_t kDeviceRounding = 512;  // bytes

class EngineImpl : public Engine {
 public:
  EngineImpl(JacobianProblem problem, SampleProgram program, PullbackPlan plan, std::unique_ptr<Backend> backend,
             TargetFunction target, std::optional<PushforwardPlan> pushforwards)
      : problem_(std::move(problem)),
        program_(std::move(program)),
        plan_(std::move(plan)),
        backend_(std::move(backend)),
        target_(std::move(target)),
        rounding_(*backend_, problem_.values),
        linearizer_(program_, plan_, *backend_, rounding_),
        pushforwards_(std::move(pushforwards)),
        tile_(pushforwards_ ? ShapeOfPushforwardTile(program_, plan_, *pushforwards_, *backend_, linearizer_)
                            : ShapeOfTile(program_, plan_, *backend_, target_.per_row(), linearizer_)) {}

  absl::Status Prepare(const EngineOptions& options) {
    RETURN_IF_ERROR(MakeLayout());
    tile_.stage_bytes = RowOutlet::StageBytes(plan_, layout_, *backend_);
    FindNeeds(options.threads);
    discard_rows_ = options.discard_rows;
    const absl::StatusOr<MemoryPlan> memory = PlanMemory(needs_, options.memory_budget_bytes);
    if (const std::optional<int64_t> smallest = SmallestBudgetOf(memory.status())) {
      return BudgetTooSmall(options.memory_budget_bytes, *smallest, NeededBy(program_, needs_));
    }
    memory_ = memory.value();
    if (options.before_allocation) options.before_allocation(memory_.total_bytes);
    ASSIGN_OR_RETURN(const std::shared_ptr<void> entered, backend_->EnterThread());
    ASSIGN_OR_RETURN(Scratch scratch,
                     Scratch::Make(backend_->memory(), SharedValues::ScratchBytes(program_, *backend_)));
    RETURN_IF_ERROR(rounding_.Prepare());
    RETURN_IF_ERROR(shared_.Compute(program_, plan_, problem_, *backend_, rounding_, scratch));
    return SetInputs();
  }

  const JacobianLayout& layout() const override { return layout_; }
  Effort effort() const override {
    Effort effort = times_;
    for (const auto& worker : workers_) Add(worker->times(), effort);
    const absl::StatusOr<std::shared_ptr<void>> entered = backend_->EnterThread();
    if (entered.ok()) effort.loss = rounding_.Loss().value_or(HalfLoss());
    return effort;
  }

  absl::StatusOr<std::vector<std::byte>> Value() override {
    RETURN_IF_ERROR(WithinMemory([&] { return Linearize([] { return false; }); }));
    std::vector<std::byte> value(layout_.rows * backend_->element_bytes());
    if (backend_->dtype() == DType::kFloat32) {
      target_.Value(static_cast<const float*>(embeddings_.get()), reinterpret_cast<float*>(value.data()));
    } else {
      target_.Value(static_cast<const double*>(embeddings_.get()), reinterpret_cast<double*>(value.data()));
    }
    return value;
  }

  absl::Status ComputeRows(RowRange rows, RowConsumer& consumer, const std::function<bool()>& cancelled) override {
    if (rows.begin < 0 || rows.count < 0 || rows.begin > layout_.rows || rows.count > layout_.rows - rows.begin) {
      return absl::OutOfRangeError(absl::StrCat(rows.count, " rows from row ", rows.begin,
                                                " on are outside the target, which has ", layout_.rows));
    }
    if (rows.count == 0) return absl::OkStatus();
    // All memory is there before the first row is made.
    RETURN_IF_ERROR(WithinMemory([&]() -> absl::Status {
      RETURN_IF_ERROR(Linearize(cancelled));
      return MakeWorkers();
    }));
    SharedConsumer shared_consumer(consumer);
    const int64_t first = rows.begin / tile_.rows, last = (rows.end() - 1) / tile_.rows;
    std::atomic<int64_t> next = first;
    std::atomic<bool> stop = false;
    const std::function<bool()> stopped = [&] { return stop || cancelled(); };
    return OnThreads(ThreadsFor(last - first + 1), *backend_, [&](int thread) {
      absl::Status status = absl::OkStatus();
      for (int64_t tile = next++; tile <= last && status.ok() && !stop; tile = next++) {
        status = workers_[thread]->Run(tile, rows, shared_consumer, stopped);
      }
      if (!status.ok()) stop = true;
      return status;
    });
  }

 private:
  int ThreadsFor(int64_t pieces) const { return static_cast<int>(std::clamp<int64_t>(pieces, 1, memory_.threads)); }

  absl::Status MakeLayout() {
    layout_.target_shape = target_.shape();
    layout_.rows = target_.rows();
    layout_.dtype = backend_->dtype();
    layout_.values = problem_.values;
    layout_.tf32 = problem_.tf32;
    layout_.row_tile = tile_.rows;
    layout_.notices = program_.notices;
    for (const BlockPlan& plan : plan_.blocks) {
      const ProgramSource& source = program_.sources[plan.source];
      BlockInfo block{plan.name, source.shape, plan.connected};
      if (source.kind == SourceKind::kInput && !program_.coupled) {
        block.shape[0] =
            plan.second_batch ? problem_.second_inputs[0].second.shape[0] : problem_.inputs[0].second.shape[0];
      }
      ASSIGN_OR_RETURN(block.row_bytes, ByteCount(block.shape, layout_.dtype));
      layout_.blocks.push_back(std::move(block));
    }
    // A pullback to every input of a node costs about two forward steps.
    for (const ProgramNode& node : program_.nodes) {
      if (node.batched) layout_.flops_per_row += 2.0 * target_.per_row() * node.op->Flops();
    }
    return absl::OkStatus();
  }

  void FindNeeds(int threads) {
    const int64_t bytes = backend_->element_bytes();
    needs_.record_bytes = linearizer_.record_elements() * bytes;
    needs_.samples = target_.samples();
    needs_.window_samples = tile_.window_samples;
    needs_.threads = threads;
    needs_.stage_bytes = tile_.stage_bytes;
    needs_.thread_bytes =
        std::max(tile_.lane_bytes + std::max(tile_.scratch_bytes, linearizer_.ScratchBytes()) + tile_.stage_bytes,
                 SharedValues::ScratchBytes(program_, *backend_)) +
        backend_->library_bytes();
    needs_.fixed_bytes = SharedValues::PlannedBytes(program_, plan_, *backend_) + InputBytes() +
                         needs_.samples * program_.values[program_.output].elements * bytes;
    for (const BlockInfo& block : layout_.blocks) {
      if (!block.connected) continue;
      needs_.largest_row_bytes = std::max(needs_.largest_row_bytes, block.row_bytes);
      needs_.all_rows_bytes += static_cast<double>(layout_.rows) * static_cast<double>(block.row_bytes);
    }
    if (backend_->memory().on_host()) return;
    // A device rounds every allocation up.
    const size_t allocations = program_.values.size() + program_.nodes.size() + 2 * program_.sources.size() + 16;
    needs_.fixed_bytes += kDeviceRounding * static_cast<int64_t>(allocations);
    needs_.thread_bytes += 64 * kDeviceRounding;
  }

  // Runs what allocates. When the device turns out to have less memory than the budget allows, fewer rows are worked on
  // at once: plans of half the size are tried until one fits. They have fewer threads, fewer kept samples and smaller
  // slots, never another tile, so that a row's bits stay its own.
  absl::Status WithinMemory(const std::function<absl::Status()>& allocate) {
    while (true) {
      const absl::Status status = allocate();
      if (!absl::IsResourceExhausted(status)) return status;
      workers_.clear();
      slots_ = nullptr;
      records_ = nullptr;
      linearized_ = linearized_ && !memory_.keep_all_samples;
      absl::StatusOr<MemoryPlan> smaller = PlanMemory(needs_, memory_.total_bytes / 2);
      const int64_t smallest = SmallestBudgetOf(smaller.status()).value_or(memory_.total_bytes);
      if (!smaller.ok() && smallest < memory_.total_bytes) smaller = PlanMemory(needs_, smallest);
      if (!smaller.ok()) {
        absl::Status failed = smaller.status();
        absl::Status said = absl::ResourceExhaustedError(absl::StrCat(status.message(), "; ", failed.message()));
        failed.ForEachPayload([&](auto type, const absl::Cord& payload) { said.SetPayload(type, payload); });
        return said;
      }
      memory_ = *smaller;
    }
  }

  // Slots and one worker per thread, which are kept for the rows to come.
  absl::Status MakeWorkers() {
    if (!workers_.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const EnteredThreads entered, EnteredThreads::Make(memory_.threads, *backend_));
    compiled_.emplace(CompiledProblem{program_, plan_, *backend_, rounding_, target_, linearizer_, shared_, layout_,
                                      embeddings_.get(), records_.get(), discard_rows_});
    ASSIGN_OR_RETURN(slots_, SlotPool::Make(backend_->memory(), memory_.slots, memory_.slot_bytes));
    std::vector<std::unique_ptr<RowWorker>> workers(memory_.threads);
    for (auto& worker : workers) {
      if (pushforwards_) {
        ASSIGN_OR_RETURN(worker, PushforwardTileWorker::Make(*compiled_, *pushforwards_, tile_, *slots_));
      } else {
        ASSIGN_OR_RETURN(worker, TileWorker::Make(*compiled_, tile_, *slots_));
      }
    }
    workers_ = std::move(workers);
    return absl::OkStatus();
  }

  int64_t InputBytes() const {
    int64_t bytes = 0;
    for (const NamedTensors* tensors : {&problem_.inputs, &problem_.second_inputs}) {
      for (const auto& [name, tensor] : *tensors) bytes += Elements(tensor.shape) * backend_->element_bytes();
    }
    return bytes;
  }

  absl::Status SetInputs() {
    std::vector<Linearizer::BatchInputs> batches;
    std::vector<int64_t> samples;
    for (const NamedTensors* tensors : {&problem_.inputs, &problem_.second_inputs}) {
      if (tensors->empty()) continue;
      Linearizer::BatchInputs batch(program_.sources.size());
      for (const auto& [name, tensor] : *tensors) {
        for (size_t s = 0; s < program_.sources.size(); ++s) {
          if (program_.sources[s].name != name) continue;
          ASSIGN_OR_RETURN(batch[s], NumbersOf(tensor, *backend_, rounding_));
        }
      }
      samples.push_back(program_.coupled ? 1 : tensors->front().second.shape[0]);
      batches.push_back(std::move(batch));
    }
    linearizer_.SetInputs(std::move(batches), std::move(samples), &shared_);
    return absl::OkStatus();
  }

  // Embeddings of all samples and, when they fit, all records; once.
  absl::Status Linearize(const std::function<bool()>& cancelled) {
    if (linearized_) return absl::OkStatus();
    const int64_t bytes = backend_->element_bytes(), record_bytes = linearizer_.record_elements() * bytes;
    const int64_t embedding_bytes = program_.values[program_.output].elements * bytes;
    const bool keep = memory_.keep_all_samples;
    const Memory& memory = backend_->memory();
    ASSIGN_OR_RETURN(const Buffer device_embeddings, memory.Allocate(target_.samples() * embedding_bytes));
    embeddings_ = device_embeddings;
    if (!memory.on_host()) {
      ASSIGN_OR_RETURN(embeddings_, memory.AllocateHost(target_.samples() * embedding_bytes));
    }
    if (keep) {
      ASSIGN_OR_RETURN(records_, memory.Allocate(target_.samples() * record_bytes));
    }
    auto* embeddings = static_cast<std::byte*>(device_embeddings.get());
    std::atomic<int64_t> next = 0;
    std::mutex mutex;
    RETURN_IF_ERROR(OnThreads(ThreadsFor(linearizer_.chunks()), *backend_, [&](int) -> absl::Status {
      const auto begin = std::chrono::steady_clock::now();
      ASSIGN_OR_RETURN(Scratch scratch, Scratch::Make(memory, linearizer_.ScratchBytes()));
      Buffer own;
      if (!keep) {
        ASSIGN_OR_RETURN(own, memory.Allocate(linearizer_.chunk_samples() * record_bytes));
      }
      for (int64_t chunk = next++; chunk < linearizer_.chunks(); chunk = next++) {
        if (cancelled()) return absl::CancelledError("cancelled");
        const Linearizer::ChunkRange range = linearizer_.Chunk(chunk);
        const int64_t at = range.first_sample * embedding_bytes;
        std::byte* records = static_cast<std::byte*>(keep ? records_.get() : own.get());
        if (keep) records += range.first_sample * record_bytes;
        linearizer_.Forward(chunk, {records, linearizer_.record_elements()}, embeddings + at, scratch);
        memory.CopyOut(static_cast<std::byte*>(embeddings_.get()) + at, embeddings + at, range.count * embedding_bytes);
      }
      RETURN_IF_ERROR(memory.Wait());
      const std::lock_guard<std::mutex> lock(mutex);
      times_.linearize += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      return absl::OkStatus();
    }));
    linearized_ = true;
    return absl::OkStatus();
  }

  static void Add(const Effort& times, Effort& sum) {
    sum.linearize += times.linearize;
    sum.pullback += times.pullback;
    sum.rows += times.rows;
    sum.send += times.send;
  }

  const JacobianProblem problem_;
  SampleProgram program_;
  PullbackPlan plan_;
  std::unique_ptr<Backend> backend_;
  TargetFunction target_;
  ValueRounding rounding_;
  Linearizer linearizer_;
  std::optional<PushforwardPlan> pushforwards_;
  TileShape tile_;
  JacobianLayout layout_;
  MemoryNeeds needs_;
  MemoryPlan memory_;
  SharedValues shared_;
  Buffer embeddings_;  // of all samples, in the host's memory
  Buffer records_;     // of all samples, when they are kept
  std::optional<CompiledProblem> compiled_;
  std::shared_ptr<SlotPool> slots_;
  std::vector<std::unique_ptr<RowWorker>> workers_;  // by thread
  bool linearized_ = false;
  bool discard_rows_ = false;
  Effort times_;
};

// Rows of a pairwise target are pairs of samples, so these must still be there at the end.
absl::Status CheckCoupledPairs(const SampleProgram& program, int64_t first, int64_t second) {
  const Shape& shape = program.values[program.output].shape;
  if (first != second) {
    return absl::UnimplementedError(absl::StrCat(program.coupling, "; so a batch is taken as a whole, and ",
                                                 "then both batches must have the same size, not ", first, " and ",
                                                 second));
  }
  if (shape.empty() || shape[0] != first) {
    return absl::InvalidArgumentError(absl::StrCat(program.coupling, "; output ", program.output_name, " has shape ",
                                                   ShapeText(shape), " for a batch of ", first,
                                                   " samples: there is no embedding per sample to compare"));
  }
  return absl::OkStatus();
}

// Is float32 asked for, and too little for what happens between inputs and rows?
absl::StatusOr<bool> NeedsFloat64(const SampleProgram& program, const JacobianProblem& problem) {
  if (problem.precision != DType::kFloat32) return false;
  if (program.coupled && !problem.values) return true;
  const std::optional<std::string> integers = IntegersBeyondFloat32(program, problem);
  if (!problem.values || !integers.has_value()) return integers.has_value();
  return absl::InvalidArgumentError(
      absl::StrCat(*integers, "; with values of 16 bits integers are computed in float32,", " which counts to ",
                   static_cast<int64_t>(kMostInFloat32), " without gaps: ask for fp32 or fp64"));
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(BackendKind kind, const JacobianProblem& problem) {
  switch (kind) {
    case BackendKind::kReference:
      return MakeReferenceBackend(problem.precision);
    case BackendKind::kCpu:
      return MakeCpuBackend(problem.precision);
    case BackendKind::kCuda:
      return MakeCudaBackend(problem.precision, problem.tf32);
  }
  return absl::InternalError("an unknown backend");
}

// None: pull back.
absl::StatusOr<std::optional<PushforwardPlan>> ChooseDirection(const SampleProgram& program, const PullbackPlan& plan,
                                                               bool pairwise, Direction direction) {
  if (direction == Direction::kPullback) return std::nullopt;
  absl::StatusOr<PushforwardPlan> pushforwards = PlanPushforwards(program, plan, pairwise);
  if (direction == Direction::kByCost && (!pushforwards.ok() || !PushforwardsCostLess(program, plan))) {
    return std::nullopt;
  }
  if (!pushforwards.ok()) return pushforwards.status();
  return std::optional<PushforwardPlan>(*std::move(pushforwards));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(JacobianProblem problem, const EngineOptions& options) {
  ASSIGN_OR_RETURN(const Bindings bindings, CheckProblem(problem));
  if (problem.tf32 && options.backend != BackendKind::kCuda) {
    return WrongBackend(absl::StrCat("precision tf32 is a GPU's, and the backend here is ",
                                     std::string(NameOf(options.backend)), "; ask for fp32, or start GPU workers"));
  }
  ASSIGN_OR_RETURN(SampleProgram program, CompileSampleProgram(*problem.graph, bindings));
  ASSIGN_OR_RETURN(const bool narrow, NeedsFloat64(program, problem));
  if (narrow) {
    problem.precision = DType::kFloat64;
    problem.tf32 = false;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeBackend(options.backend, problem));
  ASSIGN_OR_RETURN(std::vector<BlockPlan> blocks, SelectBlocks(program, problem));
  PullbackPlan plan = PlanPullbacks(program, std::move(blocks));
  const ProgramValue& output = program.values[program.output];
  const int64_t first = problem.inputs[0].second.shape[0];
  const int64_t second = problem.pairwise ? problem.second_inputs[0].second.shape[0] : 0;
  if (program.coupled && problem.pairwise) RETURN_IF_ERROR(CheckCoupledPairs(program, first, second));
  Shape target_shape = problem.pairwise ? Shape{first, second} : output.shape;
  if (!problem.pairwise && !program.coupled) target_shape[program.output_batch_axis] *= first;
  RETURN_IF_ERROR(ElementCount(target_shape).status());
  ASSIGN_OR_RETURN(std::optional<PushforwardPlan> pushforwards,
                   ChooseDirection(program, plan, problem.pairwise.has_value(), options.direction));
  TargetFunction target(problem.pairwise, output.shape, program.output_batch_axis, program.output_before_samples, first,
                        second);
  auto engine = std::make_unique<EngineImpl>(std::move(problem), std::move(program), std::move(plan),
                                             std::move(backend), std::move(target), std::move(pushforwards));
  RETURN_IF_ERROR(engine->Prepare(options));
  return narrow ? NarrowToFloat32(std::move(engine)) : std::move(engine);
}

}  // namespace jacserve::worker
