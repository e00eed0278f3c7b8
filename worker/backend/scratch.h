// Temporary memory of one engine thread: a stack of buffers in one arena that is allocated once.
#pragma once

#include <cstdint>
#include <memory>

#include "common/status.h"

namespace jacserve::worker {

class Scratch {
 public:
  explicit Scratch(int64_t bytes) : bytes_(bytes), memory_(new (std::align_val_t{64}) std::byte[bytes + 64]) {}

  // Uninitialised, 64-byte aligned; valid until the enclosing Frame ends. The size was planned: running out is our bug.
  void* Take(int64_t bytes) {
    const int64_t begin = used_;
    used_ += (bytes + 63) / 64 * 64;
    JACSERVE_CHECK(used_ <= bytes_ + 64);
    return memory_.get() + begin;
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
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  int64_t bytes_;
  int64_t used_ = 0;
  std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace jacserve::worker
