// One thread's finished rows on their way to the consumer: made straight in a slot where the device is the host; else
// on a stage in the device's memory, and copied to slots.
// In: which blocks' rows are made next. Out: where to make them, then slabs.
#pragma once

#include <functional>
#include <vector>

#include "worker/engine/row_worker.h"

namespace jacserve::worker {

class RowOutlet {
 public:
  // Bytes of a stage on the backend's device: what it makes at a time of a tile, and one row of any group of blocks.
  static int64_t StageBytes(const PullbackPlan& plan, const JacobianLayout& layout, const Backend& backend);
  // ResourceExhausted: as Memory::Allocate.
  static absl::StatusOr<RowOutlet> Make(const CompiledProblem& problem, SlotPool& slots, int64_t stage_bytes);

  bool staged() const { return stage_ != nullptr; }
  // Rows of these blocks that can be made together; at least 1.
  int64_t RowsTogether(const std::vector<int>& blocks) const;

  // Room for `count` rows of each block, count <= RowsTogether; of block blocks[k] at rows[k]. Cancelled: `cancelled`
  // said so while slots were waited for.
  absl::StatusOr<std::vector<std::byte*>> Begin(const std::vector<int>& blocks, int64_t count,
                                                const std::function<bool()>& cancelled);
  // Rows `made` lie where Begin said; those of them that are wanted go to the consumer, once all is computed, or
  // nowhere when they are to be discarded. Errors: the backend's, the consumer's, Cancelled.
  absl::Status Deliver(RowRange made, RowRange wanted, SharedConsumer& consumer,
                       const std::function<bool()>& cancelled);

 private:
  struct Pending {
    int block;
    std::byte* rows;
    SlotPool::Piece slot;  // of which `rows` is the memory, unless staged
  };
  RowOutlet(const CompiledProblem& problem, SlotPool& slots) : problem_(problem), slots_(slots) {}
  absl::Status CopyToSlots(const Pending& from, RowRange made, RowRange wanted, SharedConsumer& consumer,
                           const std::function<bool()>& cancelled);

  const CompiledProblem& problem_;
  SlotWriter slots_;
  Buffer stage_;
  int64_t stage_bytes_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace jacserve::worker
