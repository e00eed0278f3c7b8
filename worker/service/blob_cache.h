// Graphs and tensors by digest, kept in memory as long as there is room.
// In: digests, and a function that fetches what is not there. Out: bytes that live as long as somebody uses them.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"

namespace jacserve::worker {

using Blob = std::shared_ptr<const std::vector<std::byte>>;

// The blob of this digest, verified. ResourceExhausted: it has more than limit_bytes. NotFound: nobody holds it.
using FetchBlob = std::function<absl::StatusOr<std::vector<std::byte>>(const std::string& sha256, int64_t limit_bytes)>;

// Safe to call from several threads.
class BlobCache {
 public:
  BlobCache(FetchBlob fetch, int64_t capacity_bytes);

  // Errors are the fetcher's. A blob that alone is over the capacity is handed out without being kept.
  absl::StatusOr<Blob> Get(const std::string& sha256, int64_t limit_bytes);

  int64_t size_bytes() const;
  int64_t capacity_bytes() const { return capacity_bytes_; }

 private:
  struct Entry {
    std::string sha256;
    Blob blob;
  };

  Blob Find(const std::string& sha256);
  void Keep(const std::string& sha256, const Blob& blob);

  const FetchBlob fetch_;
  const int64_t capacity_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the latest used first
  std::unordered_map<std::string, std::list<Entry>::iterator> entry_of_;
  int64_t size_bytes_ = 0;
};

}  // namespace jacserve::worker
