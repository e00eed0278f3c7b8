// What is allocated, on devices and pinned on the host, and what was freed lately.
// In: allocations and pointers. Out: which block a pointer lies in. Not locked: World's mutex is held around each call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace jacserve::cuda_sim {

constexpr int kHostDevice = -1;
constexpr unsigned char kPoison = 0xff;  // in floats a NaN, in integers -1

struct Block {
  char* begin = nullptr;
  int64_t bytes = 0;
  int device = kHostDevice;
  bool freed = false;
  bool pooled = false;  // from cudaMallocAsync

  bool pinned() const { return device == kHostDevice; }
  const char* end() const { return begin + bytes; }
};

// 256: what cudaMalloc aligns to, and how sizes are counted.
int64_t RoundedBytes(int64_t bytes);

class Memory {
 public:
  ~Memory();

  // A block full of poison; null when the host has no memory.
  void* Allocate(int64_t bytes, int device, bool pooled);
  // Poisons a live block and keeps it for a while. Says whether something wrote past its end.
  [[nodiscard]] bool Free(void* begin);

  // The block that the pointer lies in or is one past the end of, live or freed lately.
  const Block* Find(const void* pointer) const;
  std::vector<const Block*> Live() const;

 private:
  void Evict(int64_t keep_bytes);

  std::map<const char*, Block> blocks_;
  std::deque<const char*> freed_;  // oldest first
  int64_t freed_bytes_ = 0;
};

}  // namespace jacserve::cuda_sim
