// Temporary memory of one engine thread: a stack of buffers in one arena that is allocated once.
#pragma once

#include <cstdint>
#include <utility>

#include "common/status.h"
#include "worker/backend/memory.h"

namespace jacserve::worker {

class Scratch {
 public:
  // ResourceExhausted: as Memory::Allocate.
  static absl::StatusOr<Scratch> Make(const Memory& memory, int64_t bytes) {
    ASSIGN_OR_RETURN(Buffer arena, memory.Allocate(bytes + 64));
    return Scratch(std::move(arena), bytes);
  }

  // Uninitialised, 64-byte aligned; valid until the enclosing Frame ends. The size was planned: running out is our bug.
  void* Take(int64_t bytes) {
    const int64_t begin = used_;
    used_ += (bytes + 63) / 64 * 64;
    JACSERVE_CHECK(used_ <= bytes_ + 64);
    return static_cast<std::byte*>(arena_.get()) + begin;
  }

  // Gives back, at its end, everything taken since it began.
  class Frame {
   public:
    explicit Frame(Scratch& scratch) : scratch_(scratch), used_(scratch.used_) {}
    ~Frame() { scratch_.used_ = used_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Scratch& scratch_;
    int64_t used_;
  };

 private:
  Scratch(Buffer arena, int64_t bytes) : arena_(std::move(arena)), bytes_(bytes) {}

  Buffer arena_;
  int64_t bytes_;
  int64_t used_ = 0;
};

}  // namespace jacserve::worker
