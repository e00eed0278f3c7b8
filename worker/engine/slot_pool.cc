#include "worker/engine/slot_pool.h"

#include <chrono>

#include "common/status.h"

namespace jacserve::worker {

SlotPool::SlotPool(int64_t slots, int64_t slot_bytes)
    : slot_bytes_((slot_bytes + 4095) / 4096 * 4096),
      memory_(new (std::align_val_t{4096}) std::byte[slots * slot_bytes_]) {
  for (int64_t k = slots; k-- > 0;) free_.push_back(memory_.get() + k * slot_bytes_);
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
