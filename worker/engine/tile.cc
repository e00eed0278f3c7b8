#include "worker/engine/tile.h"

#include <algorithm>
#include <bit>

#include "common/status.h"

namespace jacserve::worker {

TileShape ShapeOfTile(const SampleProgram& program, const PullbackPlan& plan, const Backend& backend, int per_row,
                      const Linearizer& linearizer) {
  int64_t lane_bytes = 0, largest = 1, scratch_elements = 0, row_elements = 0;
  for (size_t v = 0; v < program.values.size(); ++v) {
    if (!plan.has_cotangent[v]) continue;
    lane_bytes += Padded(program.values[v].elements * backend.element_bytes());
    largest = std::max(largest, program.values[v].elements);
  }
  for (const ProgramNode& node : program.nodes) {
    int64_t n = node.op->ScratchElements(backend);
    for (int input : node.inputs) {  // Op::PullbackToRows pulls a row's terms back one by one
      if (input >= 0 && !program.values[input].batched) {
        n = std::max(n, node.op->ScratchElements(backend) + per_row * program.values[input].elements);
      }
    }
    scratch_elements = std::max(scratch_elements, n);
  }
  for (const EmissionGroup& group : plan.groups) {
    int64_t n = 0, step = 0;
    for (int value : group.shared_values) n += program.values[value].elements + 16;
    for (const RowStep& s : group.from_shared) {
      step = std::max(step, program.values[program.nodes[s.node].inputs[s.input]].elements);
    }
    row_elements = std::max(row_elements, n + step);
  }
  TileShape shape;
  const int64_t row_bytes = std::max<int64_t>(per_row * lane_bytes, 1);
  const TileLimits limits = backend.tile_limits();
  const int64_t rows = std::clamp<int64_t>(limits.bytes / row_bytes, 1, limits.lanes / per_row);
  shape.rows = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rows)));
  shape.lane_bytes = shape.rows * row_bytes + 64 * static_cast<int64_t>(program.values.size() + 1);
  // A buffer for a second contribution to a cotangent, what one operator takes, and a group's shared cotangents.
  shape.scratch_bytes =
      (shape.rows * per_row * largest + 2 * scratch_elements + 2 * row_elements + 1024) * backend.element_bytes() +
      64 * 64;
  const int64_t chunk = linearizer.chunk_samples();
  shape.window_samples = (shape.rows / chunk + 3) * per_row * chunk;
  return shape;
}

absl::StatusOr<std::unique_ptr<RowWorker>> TileWorker::Make(const CompiledProblem& problem, const TileShape& shape,
                                                            SlotPool& slots) {
  const Memory& memory = problem.backend.memory();
  const int64_t lanes = shape.rows * problem.target.per_row();
  ASSIGN_OR_RETURN(RowOutlet outlet, RowOutlet::Make(problem, slots, shape.stage_bytes));
  ASSIGN_OR_RETURN(Scratch scratch,
                   Scratch::Make(memory, std::max(shape.scratch_bytes, problem.linearizer.ScratchBytes())));
  ASSIGN_OR_RETURN(Scratch cotangents, Scratch::Make(memory, shape.lane_bytes));
  ASSIGN_OR_RETURN(RecordWindow window, RecordWindow::Make(problem, lanes, shape.window_samples));
  Buffer seeds;
  if (!memory.on_host() && problem.target.pairwise()) {
    const int64_t elements = problem.program.values[problem.program.output].elements;
    ASSIGN_OR_RETURN(seeds, memory.AllocateHost(lanes * elements * problem.backend.element_bytes()));
  }
  return std::unique_ptr<RowWorker>(new TileWorker(problem, shape, std::move(outlet), std::move(scratch),
                                                   std::move(cotangents), std::move(window), std::move(seeds)));
}

TileWorker::TileWorker(const CompiledProblem& problem, const TileShape& shape, RowOutlet outlet, Scratch scratch,
                       Scratch cotangents, RecordWindow window, Buffer seeds)
    : problem_(problem),
      shape_(shape),
      outlet_(std::move(outlet)),
      scratch_(std::move(scratch)),
      cotangents_(std::move(cotangents)),
      cotangent_of_(problem.program.values.size(), nullptr),
      shared_cotangent_of_(problem.program.values.size(), nullptr),
      window_(std::move(window)),
      seeds_(std::move(seeds)) {
  const int64_t lanes = shape.rows * problem.target.per_row();
  for (size_t v = 0; v < cotangent_of_.size(); ++v) {
    if (!problem.plan.has_cotangent[v]) continue;
    cotangent_of_[v] = cotangents_.Take(lanes * problem.program.values[v].elements * problem.backend.element_bytes());
  }
  sample_of_.resize(lanes);
}

Lanes TileWorker::Cotangent(int root) const {
  if (cotangent_of_[root] == nullptr) return {};
  return {cotangent_of_[root], problem_.program.values[root].elements};
}

absl::Status TileWorker::Run(int64_t tile, RowRange wanted, SharedConsumer& consumer,
                             const std::function<bool()>& cancelled) {
  const int64_t begin = tile * shape_.rows;
  const RowRange tile_rows{begin, std::min(shape_.rows, problem_.target.rows() - begin)};
  const int64_t wanted_begin = std::max(begin, wanted.begin);
  const RowRange part{wanted_begin, std::min(tile_rows.end(), wanted.end()) - wanted_begin};
  lanes_ = tile_rows.count * problem_.target.per_row();
  RETURN_IF_ERROR(problem_.backend.memory().Wait());  // what a cancelled tile began reads memory that is filled anew
  FindRecords(tile_rows);
  {
    const PhaseTimer timer(times_.pullback);
    Seed(tile_rows);
    PullBack();
  }
  for (const EmissionGroup& group : problem_.plan.groups) {
    RETURN_IF_ERROR(Emit(group, tile_rows, part, consumer, cancelled));
  }
  const PhaseTimer timer(times_.send);
  return consumer.OnRowsDone(part);
}

void TileWorker::FindRecords(RowRange tile_rows) {
  const PhaseTimer timer(times_.linearize);
  const int per_row = problem_.target.per_row();
  for (int64_t r = 0; r < tile_rows.count; ++r) {
    problem_.target.SamplesOf(tile_rows.begin + r, &sample_of_[r * per_row]);
  }
  window_.Find({sample_of_.data(), static_cast<size_t>(lanes_)}, scratch_);
}

void TileWorker::Seed(RowRange tile_rows) {
  const Lanes ct = Cotangent(problem_.program.values[problem_.program.output].root);
  if (ct.data == nullptr) return;  // nothing that was asked for reaches the target
  if (problem_.target.pairwise()) {
    SeedPairs(tile_rows, ct);
  } else {
    SeedOutputs(tile_rows, ct);
  }
  problem_.rounding.Round(problem_.program.values[problem_.program.output], lanes_, ct);
}

// In closed form on the host: a few numbers a row.
void TileWorker::SeedPairs(RowRange tile_rows, Lanes ct) {
  const Lanes seeds{seeds_ != nullptr ? seeds_.get() : ct.data, ct.stride};
  for (int64_t r = 0; r < tile_rows.count; ++r) {
    if (problem_.backend.dtype() == DType::kFloat32) {
      problem_.target.PairCotangents(tile_rows.begin + r, static_cast<const float*>(problem_.embeddings),
                                     seeds.At<float>(2 * r));
    } else {
      problem_.target.PairCotangents(tile_rows.begin + r, static_cast<const double*>(problem_.embeddings),
                                     seeds.At<double>(2 * r));
    }
  }
  problem_.backend.memory().CopyIn(ct.data, seeds.data, lanes_ * ct.stride * problem_.backend.element_bytes());
}

// A single 1 a row. Rows that go through one sample's output in order have them on a diagonal.
void TileWorker::SeedOutputs(RowRange tile_rows, Lanes ct) {
  problem_.backend.Fill(lanes_, ct.stride, 0.0, ct);
  for (int64_t r = 0; r < tile_rows.count;) {
    int64_t sample = 0, count = 1;
    const int64_t element = problem_.target.ElementOf(tile_rows.begin + r, &sample);
    while (r + count < tile_rows.count &&
           problem_.target.ElementOf(tile_rows.begin + r + count, &sample) == element + count) {
      ++count;
    }
    const int64_t first = r * ct.stride + element;
    problem_.backend.Fill(count, 1, 1.0,
                          {static_cast<std::byte*>(ct.data) + first * problem_.backend.element_bytes(), ct.stride + 1});
    r += count;
  }
}

void TileWorker::PullBack() {
  const SampleProgram& program = problem_.program;
  for (const PullbackStep& step : problem_.plan.steps) {
    const ProgramNode& node = program.nodes[step.node];
    std::vector<ConstLanes> x, y, ct_y;
    for (int input : node.inputs) x.push_back(window_.Primal(input, window_.record_of()));
    for (int output : node.outputs) {
      y.push_back(window_.Primal(output, window_.record_of()));
      ct_y.push_back(Cotangent(program.values[output].root));
    }
    const ConstLanes saved = problem_.linearizer.SavedInRecord(step.node, window_.records(), window_.record_of());
    const PullbackArgs args{lanes_, x, y, saved, ct_y, problem_.backend, scratch_};
    const ProgramValue& x_value = program.values[node.inputs[step.input]];
    const Lanes ct_x = Cotangent(x_value.root);
    if (!step.accumulate) {
      node.op->Pullback(step.input, args, ct_x);
      problem_.rounding.Round(x_value, lanes_, ct_x);
      continue;
    }
    const Scratch::Frame frame(scratch_);
    const Lanes other{scratch_.Take(lanes_ * ct_x.stride * problem_.backend.element_bytes()), ct_x.stride};
    node.op->Pullback(step.input, args, other);
    problem_.backend.CopyStrided(lanes_, {ct_x.stride}, other, {1}, ct_x, {1}, true, 1.0);
    problem_.rounding.Round(x_value, lanes_, ct_x);
  }
}

// On a stage the pieces of a tile have fixed places and sizes, so that products over a piece's rows are of one shape.
int64_t TileWorker::RowsPerPiece(const EmissionGroup& group) const {
  if (!group.shared_values.empty()) return 1;  // whose buffers are planned for one row
  const int64_t rows = std::min(outlet_.RowsTogether(group.blocks), shape_.rows);
  return outlet_.staged() ? static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rows))) : rows;
}

absl::Status TileWorker::Emit(const EmissionGroup& group, RowRange tile_rows, RowRange wanted, SharedConsumer& consumer,
                              const std::function<bool()>& cancelled) {
  const int64_t step = RowsPerPiece(group);
  // A piece on the stage is made whole, whatever part of it is wanted.
  const RowRange range = outlet_.staged() ? tile_rows : wanted;
  const int64_t skipped = (wanted.begin - range.begin) / step;
  for (int64_t begin = range.begin + skipped * step; begin < wanted.end(); begin += step) {
    const Span span{{begin, std::min(step, range.end() - begin)},
                    (begin - tile_rows.begin) * problem_.target.per_row()};
    std::vector<std::byte*> rows;
    {
      const PhaseTimer timer(times_.send);
      ASSIGN_OR_RETURN(rows, outlet_.Begin(group.blocks, span.rows.count, cancelled));
    }
    {
      const PhaseTimer timer(times_.rows);
      if (group.input) {
        FillInputRows(group, span, rows[0]);
      } else {
        FillRows(group, span, rows);
      }
    }
    const PhaseTimer timer(times_.send);
    RETURN_IF_ERROR(outlet_.Deliver(span.rows, wanted, consumer, cancelled));
  }
  return absl::OkStatus();
}

void TileWorker::FillRows(const EmissionGroup& group, const Span& span, const std::vector<std::byte*>& rows) {
  const int64_t bytes = problem_.backend.element_bytes();
  const Scratch::Frame frame(scratch_);
  for (int value : group.shared_values) {
    const int64_t size = span.rows.count * problem_.program.values[value].elements * bytes;
    shared_cotangent_of_[value] = scratch_.Take(size);
  }
  const auto sink = [&](const RowStep& step) {
    if (step.block >= 0) {
      const auto at = std::find(group.blocks.begin(), group.blocks.end(), step.block) - group.blocks.begin();
      return RowSink{rows[at], problem_.layout.blocks[step.block].row_bytes / bytes, step.view.shape, step.view.strides,
                     step.accumulate};
    }
    const ProgramValue& value = problem_.program.values[problem_.program.nodes[step.node].inputs[step.input]];
    return RowSink{shared_cotangent_of_[step.value], value.elements, value.shape, RowMajorStrides(value.shape),
                   step.accumulate};
  };
  for (const RowStep& step : group.from_batched) RunRowStep(step, span, sink(step), true);
  for (const RowStep& step : group.from_shared) RunRowStep(step, span, sink(step), false);
}

void TileWorker::RunRowStep(const RowStep& step, const Span& span, const RowSink& sink, bool from_batched) {
  const SampleProgram& program = problem_.program;
  const ProgramNode& node = program.nodes[step.node];
  const int32_t* record_of = window_.record_of() + span.lane_begin;
  std::vector<ConstLanes> x, y, ct_y;
  for (int input : node.inputs) x.push_back(window_.Primal(input, record_of));
  for (int output : node.outputs) {
    const ProgramValue& value = program.values[output];
    y.push_back(window_.Primal(output, record_of));
    ct_y.push_back(from_batched ? From(Cotangent(value.root), span.lane_begin, problem_.backend)
                                : ConstLanes{shared_cotangent_of_[value.root], value.elements, nullptr});
  }
  const ConstLanes saved = from_batched ? problem_.linearizer.SavedInRecord(step.node, window_.records(), record_of)
                                        : problem_.shared.Saved(step.node);
  const Terms terms{span.rows.count, from_batched ? problem_.target.per_row() : 1};
  node.op->PullbackToRows(step.input, terms, {terms.lanes(), x, y, saved, ct_y, problem_.backend, scratch_}, sink);
}

void TileWorker::FillInputRows(const EmissionGroup& group, const Span& span, std::byte* rows) {
  const BlockPlan& block = problem_.plan.blocks[group.blocks[0]];
  const int64_t bytes = problem_.backend.element_bytes();
  const int64_t row_bytes = problem_.layout.blocks[group.blocks[0]].row_bytes;
  const Lanes ct = Cotangent(problem_.program.values[problem_.program.sources[block.source].value].root);
  const int64_t row = row_bytes / bytes;
  problem_.backend.Fill(span.rows.count, row, 0.0, {rows, row});
  const int per_row = problem_.target.per_row(), term = block.second_batch ? 1 : 0;
  const int64_t first = block.second_batch ? problem_.target.first_samples() : 0;
  const auto sample = [&](int64_t r) { return sample_of_[span.lane_begin + r * per_row + term] - first; };
  for (int64_t r = 0; r < span.rows.count;) {  // rows whose samples are the same, or follow each other, at once
    int64_t count = 1, step = 0;
    if (r + 1 < span.rows.count) step = sample(r + 1) - sample(r);
    while ((step == 0 || step == 1) && r + count < span.rows.count && sample(r + count) == sample(r) + count * step) {
      ++count;
    }
    const int64_t lane = span.lane_begin + r * per_row + term, place = r * row + sample(r) * ct.stride;
    problem_.backend.CopyStrided(
        count, {ct.stride}, {static_cast<const std::byte*>(ct.data) + lane * ct.stride * bytes, per_row * ct.stride},
        {1}, {rows + place * bytes, row + step * ct.stride}, {1}, false, 1.0);
    r += count;
  }
}

}  // namespace jacserve::worker
