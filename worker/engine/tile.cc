#include "worker/engine/tile.h"

#include <algorithm>
#include <bit>
#include <cstring>

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
  const int64_t rows = std::clamp<int64_t>(kTileBytes / row_bytes, 1, kTileLanes / per_row);
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

TileWorker::TileWorker(const CompiledProblem& problem, const TileShape& shape, SlotPool& slots)
    : problem_(problem),
      shape_(shape),
      slots_(slots),
      scratch_(std::max(shape.scratch_bytes, problem.linearizer.ScratchBytes())),
      cotangents_(shape.lane_bytes),
      cotangent_of_(problem.program.values.size(), nullptr),
      shared_cotangent_of_(problem.program.values.size(), nullptr),
      window_(problem, shape.window_samples) {
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
  const int per_row = problem_.target.per_row();
  for (int64_t r = 0; r < tile_rows.count; ++r) {
    if (problem_.backend.dtype() == DType::kFloat32) {
      problem_.target.Cotangents(tile_rows.begin + r, static_cast<const float*>(problem_.embeddings),
                                 ct.At<float>(r * per_row));
    } else {
      problem_.target.Cotangents(tile_rows.begin + r, static_cast<const double*>(problem_.embeddings),
                                 ct.At<double>(r * per_row));
    }
  }
  problem_.rounding.Round(problem_.program.values[problem_.program.output], lanes_, ct);
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

int64_t TileWorker::RowsPerPiece(const EmissionGroup& group) const {
  if (!group.shared_values.empty()) return 1;  // whose buffers are planned for one row
  int64_t row_bytes = 0;
  for (int block : group.blocks) row_bytes = std::max(row_bytes, problem_.layout.blocks[block].row_bytes);
  return row_bytes == 0 ? shape_.rows : std::max<int64_t>(slots_.slot_bytes() / row_bytes, 1);
}

absl::Status TileWorker::Emit(const EmissionGroup& group, RowRange tile_rows, RowRange wanted, SharedConsumer& consumer,
                              const std::function<bool()>& cancelled) {
  const int64_t step = RowsPerPiece(group);
  for (int64_t begin = wanted.begin; begin < wanted.end(); begin += step) {
    const Span span{{begin, std::min(step, wanted.end() - begin)},
                    (begin - tile_rows.begin) * problem_.target.per_row()};
    std::vector<SlotPool::Piece> pieces;
    std::vector<std::byte*> rows(problem_.layout.blocks.size(), nullptr);
    {
      const PhaseTimer timer(times_.send);
      for (int block : group.blocks) {
        ASSIGN_OR_RETURN(auto piece, slots_.Take(span.rows.count * problem_.layout.blocks[block].row_bytes, cancelled));
        rows[block] = piece.data;
        pieces.push_back(std::move(piece));
      }
    }
    {
      const PhaseTimer timer(times_.rows);
      if (group.input) {
        FillInputRows(group, span, rows[group.blocks[0]]);
      } else {
        FillRows(group, span, rows);
      }
    }
    const PhaseTimer timer(times_.send);
    for (size_t k = 0; k < group.blocks.size(); ++k) {
      const int64_t bytes = span.rows.count * problem_.layout.blocks[group.blocks[k]].row_bytes;
      if (bytes == 0) continue;
      RETURN_IF_ERROR(consumer.OnSlab({static_cast<uint32_t>(group.blocks[k]),
                                       span.rows,
                                       {pieces[k].data, static_cast<size_t>(bytes)},
                                       std::move(pieces[k].keep_alive)}));
    }
    if (cancelled()) return absl::CancelledError("cancelled");
  }
  return absl::OkStatus();
}

void TileWorker::FillRows(const EmissionGroup& group, const Span& span, const std::vector<std::byte*>& blocks) {
  const int64_t bytes = problem_.backend.element_bytes();
  const Scratch::Frame frame(scratch_);
  for (int value : group.shared_values) {
    const int64_t size = span.rows.count * problem_.program.values[value].elements * bytes;
    shared_cotangent_of_[value] = scratch_.Take(size);
  }
  const auto sink = [&](const RowStep& step) {
    if (step.block >= 0) {
      return RowSink{blocks[step.block], problem_.layout.blocks[step.block].row_bytes / bytes, step.view.shape,
                     step.view.strides, step.accumulate};
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
  std::memset(rows, 0, span.rows.count * row_bytes);
  const int per_row = problem_.target.per_row();
  const int term = block.second_batch ? 1 : 0;
  const int64_t first = block.second_batch ? problem_.target.first_samples() : 0;
  for (int64_t r = 0; r < span.rows.count; ++r) {
    const int64_t lane = span.lane_begin + r * per_row + term;
    std::memcpy(rows + r * row_bytes + (sample_of_[lane] - first) * ct.stride * bytes,
                static_cast<const std::byte*>(ct.data) + lane * ct.stride * bytes, ct.stride * bytes);
  }
}

}  // namespace jacserve::worker
