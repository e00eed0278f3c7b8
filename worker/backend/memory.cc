#include "worker/backend/memory.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "common/size_text.h"

namespace jacserve::worker {
namespace {

constexpr size_t kLine = 64, kPage = 4096;

absl::StatusOr<Buffer> AllocateAligned(int64_t bytes, size_t alignment) {
  const std::align_val_t aligned{alignment};
  void* memory = ::operator new(static_cast<size_t>(std::max<int64_t>(bytes, 1)), aligned, std::nothrow);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("the host has no ", SizeText(bytes), " of memory left"));
  }
  return Buffer(memory, [aligned](void* p) { ::operator delete(p, aligned); });
}

}  // namespace

absl::StatusOr<Buffer> HostMemory::Allocate(int64_t bytes) const { return AllocateAligned(bytes, kLine); }

absl::StatusOr<Buffer> HostMemory::AllocateHost(int64_t bytes) const { return AllocateAligned(bytes, kPage); }

absl::StatusOr<Buffer> HostMemory::AllocateIndex(int64_t count) const {
  return AllocateAligned(count * static_cast<int64_t>(sizeof(int32_t)), kLine);
}

void HostMemory::CopyIn(void* device, const void* host, int64_t bytes) const {
  if (device != host && bytes > 0) std::memcpy(device, host, bytes);
}

void HostMemory::CopyOut(void* host, const void* device, int64_t bytes) const { CopyIn(host, device, bytes); }

}  // namespace jacserve::worker
