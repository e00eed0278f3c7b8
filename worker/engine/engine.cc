// Compiles a problem, plans its memory, and drives threads over tiles of rows.
#include "worker/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/backend/cpu/cpu_backend.h"
#include "worker/engine/check_problem.h"
#include "worker/engine/memory_plan.h"
#include "worker/engine/narrowed_engine.h"
#include "worker/engine/pushforward_tile.h"
#include "worker/engine/tile.h"

namespace jacserve::worker {
namespace {

// Runs work(thread) on `threads` threads and returns the first error.
absl::Status OnThreads(int threads, const Backend& backend, const std::function<absl::Status(int)>& work) {
  std::mutex mutex;
  absl::Status first = absl::OkStatus();
  const auto run = [&](int thread) {
    backend.PrepareThread();
    absl::Status status = work(thread);
    const std::lock_guard<std::mutex> lock(mutex);
    first.Update(status);
  };
  std::vector<std::jthread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
  others.clear();
  return first;
}

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
    MemoryNeeds needs;
    const int64_t bytes = backend_->element_bytes();
    needs.record_bytes = linearizer_.record_elements() * bytes;
    needs.samples = target_.samples();
    needs.window_samples = tile_.window_samples;
    needs.threads = options.threads;
    const int64_t shared_scratch = SharedValues::ScratchBytes(program_, *backend_);
    needs.thread_bytes =
        std::max(tile_.lane_bytes + std::max(tile_.scratch_bytes, linearizer_.ScratchBytes()), shared_scratch);
    needs.fixed_bytes = SharedValues::PlannedBytes(program_, plan_, *backend_) + InputBytes() +
                        needs.samples * program_.values[program_.output].elements * bytes;
    for (const BlockInfo& block : layout_.blocks) {
      if (block.connected) needs.largest_row_bytes = std::max(needs.largest_row_bytes, block.row_bytes);
    }
    ASSIGN_OR_RETURN(memory_, PlanMemory(needs, options.memory_budget_bytes));
    Scratch scratch(shared_scratch);
    backend_->PrepareThread();
    shared_.Compute(program_, plan_, problem_, *backend_, rounding_, scratch);
    SetInputs();
    return absl::OkStatus();
  }

  const JacobianLayout& layout() const override { return layout_; }
  Effort effort() const override {
    Effort effort = times_;
    effort.loss = rounding_.loss();
    return effort;
  }

  absl::StatusOr<std::vector<std::byte>> Value() override {
    RETURN_IF_ERROR(Linearize([] { return false; }));
    std::vector<std::byte> value(layout_.rows * backend_->element_bytes());
    if (backend_->dtype() == DType::kFloat32) {
      target_.Value(static_cast<const float*>(embeddings_->Take(0)), reinterpret_cast<float*>(value.data()));
    } else {
      target_.Value(static_cast<const double*>(embeddings_->Take(0)), reinterpret_cast<double*>(value.data()));
    }
    return value;
  }

  absl::Status ComputeRows(RowRange rows, RowConsumer& consumer, const std::function<bool()>& cancelled) override {
    if (rows.begin < 0 || rows.count < 0 || rows.begin > layout_.rows || rows.count > layout_.rows - rows.begin) {
      return absl::OutOfRangeError(absl::StrCat(rows.count, " rows from row ", rows.begin,
                                                " on are outside the target, which has ", layout_.rows));
    }
    if (rows.count == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Linearize(cancelled));
    if (slots_ == nullptr) slots_ = std::make_shared<SlotPool>(memory_.slots, memory_.slot_bytes);
    const CompiledProblem compiled{program_,
                                   plan_,
                                   *backend_,
                                   rounding_,
                                   target_,
                                   linearizer_,
                                   shared_,
                                   layout_,
                                   embeddings_->Take(0),
                                   memory_.keep_all_samples ? records_->Take(0) : nullptr};
    SharedConsumer shared_consumer(consumer);
    const int64_t last = (rows.end() - 1) / tile_.rows;
    std::atomic<int64_t> next = rows.begin / tile_.rows;
    std::atomic<bool> stop = false;
    const std::function<bool()> stopped = [&] { return stop || cancelled(); };
    std::mutex mutex;
    return OnThreads(memory_.threads, *backend_, [&](int) {
      const std::unique_ptr<RowWorker> worker = MakeWorker(compiled);
      absl::Status status = absl::OkStatus();
      for (int64_t tile = next++; tile <= last && status.ok() && !stop; tile = next++) {
        status = worker->Run(tile, rows, shared_consumer, stopped);
      }
      if (!status.ok()) stop = true;
      const std::lock_guard<std::mutex> lock(mutex);
      Add(worker->times());
      return status;
    });
  }

 private:
  absl::Status MakeLayout() {
    layout_.target_shape = target_.shape();
    layout_.rows = target_.rows();
    layout_.dtype = backend_->dtype();
    layout_.values = problem_.values;
    layout_.row_tile = tile_.rows;
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

  std::unique_ptr<RowWorker> MakeWorker(const CompiledProblem& compiled) {
    if (pushforwards_) return std::make_unique<PushforwardTileWorker>(compiled, *pushforwards_, tile_, *slots_);
    return std::make_unique<TileWorker>(compiled, tile_, *slots_);
  }

  int64_t InputBytes() const {
    int64_t bytes = 0;
    for (const NamedTensors* tensors : {&problem_.inputs, &problem_.second_inputs}) {
      for (const auto& [name, tensor] : *tensors) bytes += Elements(tensor.shape) * backend_->element_bytes();
    }
    return bytes;
  }

  void SetInputs() {
    std::vector<Linearizer::BatchInputs> batches;
    std::vector<int64_t> samples;
    for (const NamedTensors* tensors : {&problem_.inputs, &problem_.second_inputs}) {
      if (tensors->empty()) continue;
      Linearizer::BatchInputs batch(program_.sources.size());
      for (const auto& [name, tensor] : *tensors) {
        for (size_t s = 0; s < program_.sources.size(); ++s) {
          if (program_.sources[s].name == name) batch[s] = NumbersOf(tensor, *backend_, rounding_);
        }
      }
      samples.push_back(program_.coupled ? 1 : tensors->front().second.shape[0]);
      batches.push_back(std::move(batch));
    }
    linearizer_.SetInputs(std::move(batches), std::move(samples), &shared_);
  }

  // Embeddings of all samples and, when they fit, all records; once.
  absl::Status Linearize(const std::function<bool()>& cancelled) {
    if (linearized_) return absl::OkStatus();
    const int64_t bytes = backend_->element_bytes(), record_bytes = linearizer_.record_elements() * bytes;
    const int64_t embedding_bytes = program_.values[program_.output].elements * bytes;
    const bool keep = memory_.keep_all_samples;
    embeddings_ = std::make_unique<Scratch>(target_.samples() * embedding_bytes);
    if (keep) records_ = std::make_unique<Scratch>(target_.samples() * record_bytes);
    auto* embeddings = static_cast<std::byte*>(embeddings_->Take(0));
    std::atomic<int64_t> next = 0;
    std::mutex mutex;
    RETURN_IF_ERROR(OnThreads(memory_.threads, *backend_, [&](int) -> absl::Status {
      const auto begin = std::chrono::steady_clock::now();
      Scratch scratch(linearizer_.ScratchBytes());
      const std::unique_ptr<Scratch> own =
          keep ? nullptr : std::make_unique<Scratch>(linearizer_.chunk_samples() * record_bytes);
      for (int64_t chunk = next++; chunk < linearizer_.chunks(); chunk = next++) {
        if (cancelled()) return absl::CancelledError("cancelled");
        const int64_t first = linearizer_.Chunk(chunk).first_sample;
        std::byte* records = keep ? static_cast<std::byte*>(records_->Take(0)) + first * record_bytes
                                  : static_cast<std::byte*>(own->Take(0));
        linearizer_.Forward(chunk, {records, linearizer_.record_elements()}, embeddings + first * embedding_bytes,
                            scratch);
      }
      const std::lock_guard<std::mutex> lock(mutex);
      times_.linearize += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      return absl::OkStatus();
    }));
    linearized_ = true;
    return absl::OkStatus();
  }

  void Add(const Effort& times) {
    times_.linearize += times.linearize;
    times_.pullback += times.pullback;
    times_.rows += times.rows;
    times_.send += times.send;
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
  MemoryPlan memory_;
  SharedValues shared_;
  std::unique_ptr<Scratch> embeddings_, records_;
  std::shared_ptr<SlotPool> slots_;
  bool linearized_ = false;
  Effort times_;
};

// Rows of a pairwise target are pairs of samples, so these must still be there at the end.
absl::Status CheckCoupledPairs(const SampleProgram& program, int64_t first, int64_t second) {
  const Shape& shape = program.values[program.output].shape;
  if (first != second) {
    return absl::UnimplementedError(absl::StrCat(program.coupling, "; the network mixes the samples of a batch, and ",
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
  ASSIGN_OR_RETURN(SampleProgram program, CompileSampleProgram(*problem.graph, bindings));
  const bool narrow = program.coupled && problem.precision == DType::kFloat32 && !problem.values;
  if (narrow) problem.precision = DType::kFloat64;
  std::unique_ptr<Backend> backend = options.backend == BackendKind::kCpu ? MakeCpuBackend(problem.precision)
                                                                          : MakeReferenceBackend(problem.precision);
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
