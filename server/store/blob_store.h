// Graphs and tensors by the sha256 of their bytes, on disk, within a quota.
// In: uploads in pieces. Out: pinned, readable blobs that survive a restart. The least recently used ones that no job
// holds make room for new ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/digest.h"
#include "server/store/durable_file.h"

namespace jacserve::server {

class BlobStore;

// One blob on its way in. Dropped without Commit, it leaves nothing behind. One thread at a time.
class BlobUpload {
 public:
  ~BlobUpload();

  // InvalidArgument: more bytes than announced. ResourceExhausted: disk full.
  absl::Status Append(std::span<const std::byte> bytes);

  // Durable and visible once it returns OK. InvalidArgument: size or digest is not what was announced.
  absl::Status Commit();

 private:
  friend class BlobStore;
  BlobUpload(BlobStore& store, std::string digest, int64_t size_bytes, DurableFile file)
      : store_(store), digest_(std::move(digest)), size_bytes_(size_bytes), file_(std::move(file)) {}

  BlobStore& store_;
  const std::string digest_;
  const int64_t size_bytes_;
  int64_t received_bytes_ = 0;
  Sha256 hash_;
  DurableFile file_;
};

// An open blob; stays readable when the store evicts it meanwhile.
class BlobReader {
 public:
  BlobReader(UniqueFd fd, int64_t size_bytes) : fd_(std::move(fd)), size_bytes_(size_bytes) {}
  int64_t size_bytes() const { return size_bytes_; }

  // Fills `out` from `offset`, or up to the blob's end; the number of bytes read. DataLoss: the file is damaged.
  absl::StatusOr<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) const;

 private:
  UniqueFd fd_;
  int64_t size_bytes_;
};

// Keeps blobs from being evicted for as long as it lives.
class BlobPins {
 public:
  explicit BlobPins(BlobStore& store) : store_(store) {}
  BlobPins(const BlobPins&) = delete;
  BlobPins& operator=(const BlobPins&) = delete;
  ~BlobPins();

  // The blob's size. NotFound: the store does not hold it.
  absl::StatusOr<int64_t> Add(const std::string& digest);

 private:
  BlobStore& store_;
  std::vector<std::string> digests_;
};

// Thread-safe. Outlives its uploads, readers and pins.
class BlobStore {
 public:
  // Opens `directory`, made when missing; removes what earlier processes left half done and files whose size is not
  // the recorded one. FailedPrecondition: another process has it open. ResourceExhausted, Internal: the disk.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(const std::filesystem::path& directory, int64_t quota_bytes);

  // Whether it is held; asking counts as a use.
  bool Contains(const std::string& digest);

  // None: already held. InvalidArgument: negative size. ResourceExhausted: over quota, with the figures.
  absl::StatusOr<std::unique_ptr<BlobUpload>> BeginUpload(const std::string& digest, int64_t size_bytes);

  // NotFound.
  absl::StatusOr<BlobReader> OpenBlob(const std::string& digest);

  int64_t bytes() const;
  int64_t quota_bytes() const { return quota_bytes_; }

 private:
  friend class BlobUpload;
  friend class BlobPins;

  struct Blob {
    int64_t size_bytes = 0;
    uint64_t last_use = 0;
    int pins = 0;
  };

  BlobStore(std::filesystem::path directory, int64_t quota_bytes, UniqueFd lock)
      : directory_(std::move(directory)), quota_bytes_(quota_bytes), lock_(std::move(lock)) {}

  absl::Status Load();
  absl::Status MakeRoom(int64_t size_bytes);          // mutex_ held
  void Touch(const std::string& digest, Blob& blob);  // mutex_ held
  std::filesystem::path PathOf(std::string_view digest, int64_t size_bytes) const;
  void Release(int64_t reserved_bytes);
  void Insert(const std::string& digest, int64_t size_bytes);
  void Unpin(const std::vector<std::string>& digests);

  const std::filesystem::path directory_;
  const int64_t quota_bytes_;
  const UniqueFd lock_;
  mutable std::mutex mutex_;
  std::map<std::string, Blob> blobs_;
  int64_t held_bytes_ = 0;
  int64_t reserved_bytes_ = 0;  // announced by uploads under way
  uint64_t next_use_ = 1;
  uint64_t next_temporary_ = 1;
};

}  // namespace jacserve::server
