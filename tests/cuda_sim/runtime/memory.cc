// What is allocated, on devices and pinned on the host, and what was freed lately.
#include "tests/cuda_sim/runtime/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_sim/runtime/guard.h"

namespace jacserve::cuda_sim {
namespace {

constexpr int64_t kFreedBytesKept = int64_t{128} << 20;
constexpr size_t kPinnedAlignment = 4096;

void Release(const Block& block) {
  if (block.pinned()) {
    std::free(block.begin);
  } else {
    UnmapGuarded(block.begin, block.bytes);
  }
}

}  // namespace

int64_t RoundedBytes(int64_t bytes) { return (bytes + 255) / 256 * 256; }

Memory::~Memory() {
  for (const auto& [begin, block] : blocks_) Release(block);
}

void* Memory::Allocate(int64_t bytes, int device, bool pooled) {
  Evict(kFreedBytesKept);
  const int64_t rounded = RoundedBytes(bytes);
  void* const begin = device == kHostDevice ? std::aligned_alloc(kPinnedAlignment, (rounded + 4095) / 4096 * 4096)
                                            : MapGuarded(rounded);
  if (begin == nullptr) return nullptr;
  const DeviceAccess access;
  std::memset(begin, kPoison, rounded);
  blocks_[static_cast<char*>(begin)] = {
      .begin = static_cast<char*>(begin), .bytes = bytes, .device = device, .pooled = pooled};
  return begin;
}

bool Memory::Free(void* begin) {
  Block& block = blocks_.at(static_cast<char*>(begin));
  const int64_t rounded = RoundedBytes(block.bytes);
  const DeviceAccess access;
  const bool intact = std::all_of(block.begin + block.bytes, block.begin + rounded,
                                  [](char c) { return static_cast<unsigned char>(c) == kPoison; });
  std::memset(block.begin, kPoison, rounded);
  block.freed = true;
  freed_.push_back(block.begin);
  freed_bytes_ += block.bytes;
  return intact;
}

void Memory::Evict(int64_t keep_bytes) {
  while (freed_bytes_ > keep_bytes) {
    const auto oldest = blocks_.find(freed_.front());
    freed_.pop_front();
    freed_bytes_ -= oldest->second.bytes;
    Release(oldest->second);
    blocks_.erase(oldest);
  }
}

const Block* Memory::Find(const void* pointer) const {
  auto after = blocks_.upper_bound(static_cast<const char*>(pointer));
  if (after == blocks_.begin()) return nullptr;
  const Block& block = std::prev(after)->second;
  return pointer <= block.end() ? &block : nullptr;
}

std::vector<const Block*> Memory::Live() const {
  std::vector<const Block*> live;
  for (const auto& [begin, block] : blocks_) {
    if (!block.freed) live.push_back(&block);
  }
  return live;
}

}  // namespace jacserve::cuda_sim
