#include "worker/engine/slot_pool.h"

#include <chrono>

#include "common/status.h"

namespace jacserve::worker {

absl::StatusOr<std::shared_ptr<SlotPool>> SlotPool::Make(const Memory& memory, int64_t slots, int64_t slot_bytes) {
  slot_bytes = (slot_bytes + 4095) / 4096 * 4096;
  ASSIGN_OR_RETURN(Buffer arena, memory.AllocateHost(slots * slot_bytes));
  return std::shared_ptr<SlotPool>(new SlotPool(std::move(arena), slots, slot_bytes));
}

SlotPool::SlotPool(Buffer arena, int64_t slots, int64_t slot_bytes)
    : slot_bytes_(slot_bytes), arena_(std::move(arena)) {
  for (int64_t k = slots; k-- > 0;) free_.push_back(static_cast<std::byte*>(arena_.get()) + k * slot_bytes_);
}

absl::StatusOr<SlotPool::Piece> SlotPool::Acquire(const std::function<bool()>& cancelled) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (free_.empty()) {
    released_.wait_for(lock, std::chrono::milliseconds(50));
    if (free_.empty() && cancelled()) return absl::CancelledError("cancelled");
  }
  std::byte* slot = free_.back();  // the one released last is the warmest
  free_.pop_back();
  // The pool lives as long as anyone still reads one of its slots.
  return Piece{slot, std::shared_ptr<const void>(slot, [pool = shared_from_this()](const void* p) {
                 pool->Release(static_cast<std::byte*>(const_cast<void*>(p)));
               })};
}

void SlotPool::Release(std::byte* slot) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(slot);
  }
  released_.notify_one();
}

absl::StatusOr<SlotPool::Piece> SlotWriter::Take(int64_t bytes, const std::function<bool()>& cancelled) {
  bytes = (bytes + 63) / 64 * 64;
  JACSERVE_CHECK(bytes <= pool_.slot_bytes());
  if (current_.data == nullptr || used_ + bytes > pool_.slot_bytes()) {
    current_ = {};  // before waiting: a slot that is held while waiting for another could stop everyone
    ASSIGN_OR_RETURN(current_, pool_.Acquire(cancelled));
    used_ = 0;
  }
  const SlotPool::Piece piece{current_.data + used_, current_.keep_alive};
  used_ += bytes;
  return piece;
}

}  // namespace jacserve::worker
