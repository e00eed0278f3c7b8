// Memory of the host for finished rows: a fixed number of slots, allocated once, reused when their last reader lets go.
// In: sizes. Out: pieces of slots with a keep-alive. Nothing here grows with the Jacobian.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/backend/memory.h"

namespace jacserve::worker {

class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  struct Piece {
    std::byte* data = nullptr;
    std::shared_ptr<const void> keep_alive;
  };

  // ResourceExhausted: as Memory::AllocateHost.
  static absl::StatusOr<std::shared_ptr<SlotPool>> Make(const Memory& memory, int64_t slots, int64_t slot_bytes);
  int64_t slot_bytes() const { return slot_bytes_; }

  // Waits for a free slot. Cancelled: `cancelled` said so meanwhile.
  absl::StatusOr<Piece> Acquire(const std::function<bool()>& cancelled);

 private:
  SlotPool(Buffer arena, int64_t slots, int64_t slot_bytes);
  void Release(std::byte* slot);

  const int64_t slot_bytes_;
  const Buffer arena_;
  std::mutex mutex_;
  std::condition_variable released_;
  std::vector<std::byte*> free_;
};

// Cuts pieces off slots, one after the other; one per thread.
class SlotWriter {
 public:
  explicit SlotWriter(SlotPool& pool) : pool_(pool) {}
  int64_t slot_bytes() const { return pool_.slot_bytes(); }
  // bytes <= slot_bytes; 64-byte aligned.
  absl::StatusOr<SlotPool::Piece> Take(int64_t bytes, const std::function<bool()>& cancelled);

 private:
  SlotPool& pool_;
  SlotPool::Piece current_;
  int64_t used_ = 0;
};

}  // namespace jacserve::worker
