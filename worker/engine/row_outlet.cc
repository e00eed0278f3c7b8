#include "worker/engine/row_outlet.h"

#include <algorithm>

#include "common/status.h"

namespace jacserve::worker {

int64_t RowOutlet::StageBytes(const PullbackPlan& plan, const JacobianLayout& layout, const Backend& backend) {
  if (backend.memory().on_host()) return 0;
  int64_t bytes = Padded(1);
  for (const EmissionGroup& group : plan.groups) {
    int64_t row = 0;
    for (int block : group.blocks) row += Padded(layout.blocks[block].row_bytes);
    bytes = std::max({bytes, row, std::min(backend.tile_limits().piece_bytes, row * layout.row_tile)});
  }
  return bytes;
}

absl::StatusOr<RowOutlet> RowOutlet::Make(const CompiledProblem& problem, SlotPool& slots, int64_t stage_bytes) {
  RowOutlet outlet(problem, slots);
  if (problem.backend.memory().on_host()) return outlet;
  ASSIGN_OR_RETURN(outlet.stage_, problem.backend.memory().Allocate(stage_bytes));
  outlet.stage_bytes_ = stage_bytes;
  return outlet;
}

int64_t RowOutlet::RowsTogether(const std::vector<int>& blocks) const {
  int64_t sum = 0, largest = 0;
  for (int block : blocks) {
    sum += Padded(problem_.layout.blocks[block].row_bytes);
    largest = std::max(largest, problem_.layout.blocks[block].row_bytes);
  }
  if (largest == 0) return problem_.layout.row_tile;
  return std::max<int64_t>(staged() ? stage_bytes_ / sum : slots_.slot_bytes() / largest, 1);
}

absl::StatusOr<std::vector<std::byte*>> RowOutlet::Begin(const std::vector<int>& blocks, int64_t count,
                                                         const std::function<bool()>& cancelled) {
  pending_.clear();
  std::vector<std::byte*> rows;
  int64_t used = 0;
  for (int block : blocks) {
    const int64_t bytes = count * problem_.layout.blocks[block].row_bytes;
    Pending pending{block, static_cast<std::byte*>(stage_.get()) + used, {}};
    if (staged()) {
      used += Padded(bytes);
      JACSERVE_CHECK(used <= stage_bytes_);
    } else {
      ASSIGN_OR_RETURN(pending.slot, slots_.Take(bytes, cancelled));
      pending.rows = pending.slot.data;
    }
    rows.push_back(pending.rows);
    pending_.push_back(std::move(pending));
  }
  return rows;
}

absl::Status RowOutlet::Deliver(RowRange made, RowRange wanted, SharedConsumer& consumer,
                                const std::function<bool()>& cancelled) {
  if (problem_.discard_rows) {
    RETURN_IF_ERROR(problem_.backend.memory().Wait());
    pending_.clear();
  }
  for (Pending& pending : pending_) {
    const int64_t bytes = made.count * problem_.layout.blocks[pending.block].row_bytes;
    if (bytes == 0) continue;
    if (staged()) {
      RETURN_IF_ERROR(CopyToSlots(pending, made, wanted, consumer, cancelled));
      continue;
    }
    RETURN_IF_ERROR(consumer.OnSlab({static_cast<uint32_t>(pending.block),
                                     made,
                                     {pending.rows, static_cast<size_t>(bytes)},
                                     std::move(pending.slot.keep_alive)}));
  }
  return cancelled() ? absl::CancelledError("cancelled") : absl::OkStatus();
}

absl::Status RowOutlet::CopyToSlots(const Pending& from, RowRange made, RowRange wanted, SharedConsumer& consumer,
                                    const std::function<bool()>& cancelled) {
  const Memory& memory = problem_.backend.memory();
  const int64_t row_bytes = problem_.layout.blocks[from.block].row_bytes;
  const int64_t step = std::max<int64_t>(slots_.slot_bytes() / row_bytes, 1);
  const int64_t end = std::min(made.end(), wanted.end());
  for (int64_t begin = std::max(made.begin, wanted.begin); begin < end; begin += step) {
    const RowRange rows{begin, std::min(step, end - begin)};
    const int64_t bytes = rows.count * row_bytes;
    ASSIGN_OR_RETURN(SlotPool::Piece slot, slots_.Take(bytes, cancelled));
    memory.CopyOut(slot.data, from.rows + (begin - made.begin) * row_bytes, bytes);
    RETURN_IF_ERROR(memory.Wait());  // no slab goes out before it is complete, and none after an error
    RETURN_IF_ERROR(consumer.OnSlab({static_cast<uint32_t>(from.block),
                                     rows,
                                     {slot.data, static_cast<size_t>(bytes)},
                                     std::move(slot.keep_alive)}));
  }
  return absl::OkStatus();
}

}  // namespace jacserve::worker
