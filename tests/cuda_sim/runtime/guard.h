// Memory that only device work may touch: host code that reads or writes it dies with a message.
// In: sizes. Out: blocks of pages with forbidden pages on both sides. Protection keys where the processor has them (a
// right of each thread), else page protection (a right of the process: while device work runs nothing is guarded, and
// in a long run only after some of it).
// JACSERVE_SIM_NO_KEYS in the environment: as without keys.
#pragma once

#include <cstddef>

namespace jacserve::cuda_sim {

// `bytes` of fresh memory that ends, up to 256 bytes, at a forbidden page; its begin is a multiple of 256.
// Null when there is none.
void* MapGuarded(size_t bytes);
void UnmapGuarded(void* begin, size_t bytes);

// This thread does device work while one of these lives.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace jacserve::cuda_sim
