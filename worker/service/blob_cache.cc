#include "worker/service/blob_cache.h"

#include <utility>

#include "common/status.h"

namespace jacserve::worker {

BlobCache::BlobCache(FetchBlob fetch, int64_t capacity_bytes)
    : fetch_(std::move(fetch)), capacity_bytes_(capacity_bytes) {}

absl::StatusOr<Blob> BlobCache::Get(const std::string& sha256, int64_t limit_bytes) {
  if (Blob blob = Find(sha256)) return blob;
  // Without the lock: a slow fetch must not hold up others. Two callers may fetch the same; one copy is kept.
  ASSIGN_OR_RETURN(std::vector<std::byte> bytes, fetch_(sha256, limit_bytes));
  auto blob = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  Keep(sha256, blob);
  return blob;
}

int64_t BlobCache::size_bytes() const {
  std::lock_guard lock(mutex_);
  return size_bytes_;
}

Blob BlobCache::Find(const std::string& sha256) {
  std::lock_guard lock(mutex_);
  const auto found = entry_of_.find(sha256);
  if (found == entry_of_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->blob;
}

void BlobCache::Keep(const std::string& sha256, const Blob& blob) {
  const int64_t blob_bytes = static_cast<int64_t>(blob->size());
  std::lock_guard lock(mutex_);
  if (blob_bytes > capacity_bytes_ || entry_of_.contains(sha256)) return;
  while (size_bytes_ > capacity_bytes_ - blob_bytes) {
    size_bytes_ -= static_cast<int64_t>(entries_.back().blob->size());
    entry_of_.erase(entries_.back().sha256);
    entries_.pop_back();
  }
  entries_.push_front({sha256, blob});
  entry_of_[sha256] = entries_.begin();
  size_bytes_ += blob_bytes;
}

}  // namespace jacserve::worker
