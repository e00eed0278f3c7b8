#include "worker/engine/pushforward_tile.h"

#include <algorithm>
#include <bit>

#include "common/status.h"

namespace jacserve::worker {
namespace {

// Tangents that pass through together, from the program alone.
int64_t LanesOf(const SampleProgram& program, const PushforwardPlan& plan, const Backend& backend) {
  int64_t lane_bytes = 1;
  for (size_t v = 0; v < program.values.size(); ++v) {
    if (plan.moves[v]) lane_bytes += Padded(program.values[v].elements * backend.element_bytes());
  }
  const TileLimits limits = backend.tile_limits();
  return static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(limits.bytes / lane_bytes, 1, limits.lanes))));
}

}  // namespace

TileShape ShapeOfPushforwardTile(const SampleProgram& program, const PullbackPlan& pullbacks,
                                 const PushforwardPlan& plan, const Backend& backend, const Linearizer& linearizer) {
  const int64_t lanes = LanesOf(program, plan, backend), bytes = backend.element_bytes();
  const int64_t outputs = program.values[program.output].elements;
  int64_t scratch_elements = 0, largest = 0;
  TileShape shape;
  shape.rows = std::max<int64_t>(outputs, 1);
  for (size_t v = 0; v < program.values.size(); ++v) {
    if (plan.moves[v]) shape.lane_bytes += Padded(lanes * program.values[v].elements * bytes);
  }
  for (const EmissionGroup& group : pullbacks.groups) {
    const ProgramSource& source = program.sources[pullbacks.blocks[group.blocks[0]].source];
    largest = std::max(largest, program.values[source.value].elements);
  }
  for (const ProgramNode& node : program.nodes) {
    scratch_elements = std::max(scratch_elements, node.op->ScratchElements(backend));
  }
  shape.scratch_bytes = (largest * outputs + 2 * scratch_elements + 1024) * bytes + 64 * 64;
  shape.window_samples = linearizer.chunk_samples();
  return shape;
}

absl::StatusOr<std::unique_ptr<RowWorker>> PushforwardTileWorker::Make(const CompiledProblem& problem,
                                                                       const PushforwardPlan& plan,
                                                                       const TileShape& shape, SlotPool& slots) {
  const Memory& memory = problem.backend.memory();
  ASSIGN_OR_RETURN(RowOutlet outlet, RowOutlet::Make(problem, slots, shape.stage_bytes));
  ASSIGN_OR_RETURN(Scratch scratch,
                   Scratch::Make(memory, std::max(shape.scratch_bytes, problem.linearizer.ScratchBytes())));
  ASSIGN_OR_RETURN(
      Scratch tangents,
      Scratch::Make(memory, shape.lane_bytes + 64 * static_cast<int64_t>(problem.program.values.size() + 1)));
  const int64_t lanes = LanesOf(problem.program, plan, problem.backend);
  ASSIGN_OR_RETURN(RecordWindow window, RecordWindow::Make(problem, lanes, shape.window_samples));
  return std::unique_ptr<RowWorker>(new PushforwardTileWorker(
      problem, plan, shape, std::move(outlet), std::move(scratch), std::move(tangents), std::move(window)));
}

PushforwardTileWorker::PushforwardTileWorker(const CompiledProblem& problem, const PushforwardPlan& plan,
                                             const TileShape& shape, RowOutlet outlet, Scratch scratch,
                                             Scratch tangents, RecordWindow window)
    : problem_(problem),
      plan_(plan),
      shape_(shape),
      outlet_(std::move(outlet)),
      scratch_(std::move(scratch)),
      tangents_(std::move(tangents)),
      tangent_of_(problem.program.values.size(), nullptr),
      window_(std::move(window)) {
  const int64_t lanes = LanesOf(problem.program, plan, problem.backend);
  for (size_t v = 0; v < tangent_of_.size(); ++v) {
    if (!plan.moves[v]) continue;
    tangent_of_[v] = tangents_.Take(lanes * problem.program.values[v].elements * problem.backend.element_bytes());
  }
}

Lanes PushforwardTileWorker::Tangent(int root) const {
  return {tangent_of_[root], problem_.program.values[root].elements};
}

absl::Status PushforwardTileWorker::Run(int64_t tile, RowRange wanted, SharedConsumer& consumer,
                                        const std::function<bool()>& cancelled) {
  const int64_t begin = std::max(tile * shape_.rows, wanted.begin);
  const RowRange part{begin, std::min((tile + 1) * shape_.rows, wanted.end()) - begin};
  RETURN_IF_ERROR(problem_.backend.memory().Wait());  // what a cancelled tile began reads memory that is filled anew
  const std::vector<int32_t> samples(LanesOf(problem_.program, plan_, problem_.backend), static_cast<int32_t>(tile));
  {
    const PhaseTimer timer(times_.linearize);
    window_.Find(samples, scratch_);
  }
  for (const EmissionGroup& group : problem_.plan.groups) {
    const int block = group.blocks[0], source = problem_.plan.blocks[block].source;
    const int64_t inputs = problem_.program.values[problem_.program.sources[source].value].elements;
    const Scratch::Frame frame(scratch_);
    auto* jacobian = static_cast<std::byte*>(scratch_.Take(inputs * shape_.rows * problem_.backend.element_bytes()));
    {
      const PhaseTimer timer(times_.pullback);
      FillJacobian(source, jacobian);
    }
    RETURN_IF_ERROR(Emit(block, tile, jacobian, part, consumer, cancelled));
  }
  const PhaseTimer timer(times_.send);
  return consumer.OnRowsDone(part);
}

void PushforwardTileWorker::FillJacobian(int source, std::byte* jacobian) {
  const SampleProgram& program = problem_.program;
  moving_ = program.values[program.sources[source].value].root;
  const int64_t inputs = program.values[moving_].elements, outputs = program.values[program.output].elements;
  const int64_t most = LanesOf(program, plan_, problem_.backend), bytes = problem_.backend.element_bytes();
  const Lanes seeds = Tangent(moving_), y = Tangent(program.values[program.output].root);
  for (int64_t first = 0; first < inputs; first += most) {
    const int64_t lanes = std::min(most, inputs - first);
    problem_.backend.Fill(lanes, inputs, 0.0, seeds);
    // Lane l moves element first + l: the diagonal of [lanes, inputs].
    const Lanes diagonal{static_cast<std::byte*>(seeds.data) + first * bytes, inputs + 1};
    problem_.backend.Fill(lanes, 1, 1.0, diagonal);
    if (!PushForward(lanes)) problem_.backend.Fill(lanes, outputs, 0.0, y);
    problem_.backend.CopyStrided(lanes, {outputs}, y, {1}, {jacobian + first * outputs * bytes, outputs}, {1}, false,
                                 1.0);
  }
}

bool PushforwardTileWorker::PushForward(int64_t lanes) {
  const SampleProgram& program = problem_.program;
  std::vector<bool> moves(program.values.size(), false);  // of those that some source moves, this one does
  moves[moving_] = true;
  for (const int n : plan_.nodes) {
    const ProgramNode& node = program.nodes[n];
    std::vector<ConstLanes> x, y, tan_x;
    std::vector<Lanes> tan_y;
    bool any = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int input = node.inputs[i], root = input < 0 ? -1 : program.values[input].root;
      const bool here = input >= 0 && moves[root] && node.op->DifferentiableIn(static_cast<int>(i));
      any = any || here;
      tan_x.push_back(here ? ConstLanes(Tangent(root)) : ConstLanes{});
      x.push_back(window_.Primal(input, window_.record_of()));
    }
    for (int output : node.outputs) {
      const int root = program.values[output].root;
      y.push_back(window_.Primal(output, window_.record_of()));
      tan_y.push_back(plan_.moves[root] ? Tangent(root) : Lanes{});
      if (any && plan_.moves[root]) moves[root] = true;
    }
    if (!any) continue;
    const ConstLanes saved = problem_.linearizer.SavedInRecord(n, window_.records(), window_.record_of());
    node.op->Pushforward({lanes, x, y, saved, tan_x, problem_.backend, scratch_}, tan_y);
    for (size_t k = 0; k < tan_y.size(); ++k) {
      problem_.rounding.Round(program.values[node.outputs[k]], lanes, tan_y[k]);
    }
  }
  return moves[program.values[program.output].root];
}

absl::Status PushforwardTileWorker::Emit(int block, int64_t sample, const std::byte* jacobian, RowRange rows,
                                         SharedConsumer& consumer, const std::function<bool()>& cancelled) {
  const SampleProgram& program = problem_.program;
  const int64_t bytes = problem_.backend.element_bytes(), outputs = shape_.rows;
  const int64_t inputs = program.values[program.sources[problem_.plan.blocks[block].source].value].elements;
  const int64_t row_bytes = problem_.layout.blocks[block].row_bytes, columns = row_bytes / bytes;
  if (row_bytes == 0) return absl::OkStatus();
  const int64_t step = outlet_.RowsTogether({block});
  for (int64_t begin = rows.begin; begin < rows.end(); begin += step) {
    const int64_t count = std::min(step, rows.end() - begin);
    std::vector<std::byte*> to;
    {
      const PhaseTimer timer(times_.send);
      ASSIGN_OR_RETURN(to, outlet_.Begin({block}, count, cancelled));
    }
    {
      const PhaseTimer timer(times_.rows);
      problem_.backend.Fill(count, columns, 0.0, {to[0], columns});
      const ConstLanes from{jacobian + (begin - sample * outputs) * bytes, 0, nullptr};
      problem_.backend.CopyStrided(1, {count, inputs}, from, {1, outputs}, {to[0] + sample * inputs * bytes, 0},
                                   {columns, 1}, false, 1.0);
    }
    const PhaseTimer timer(times_.send);
    RETURN_IF_ERROR(outlet_.Deliver({begin, count}, rows, consumer, cancelled));
  }
  return absl::OkStatus();
}

}  // namespace jacserve::worker
