// Files that are complete or absent: written beside, made durable, renamed into place.
// In: bytes in pieces. Out: a file under its final name that survives a crash, or nothing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace jacserve::server {

// A file descriptor that closes itself.
class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept;
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd();
  int get() const { return fd_; }

 private:
  int fd_;
};

// Makes a directory's entries durable. Internal: the system refused.
absl::Status SyncDirectory(const std::filesystem::path& directory);

class DurableFile {
 public:
  // Creates `temporary`; it is removed again unless Publish succeeds. ResourceExhausted: the disk is full.
  static absl::StatusOr<DurableFile> Create(std::filesystem::path temporary);
  DurableFile(DurableFile&&) noexcept = default;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  // ResourceExhausted: the disk is full, or a limit on file sizes is reached.
  absl::Status Append(std::span<const std::byte> bytes);

  // Durable under `name` once it returns OK; the directory is made when missing.
  absl::Status Publish(const std::filesystem::path& name);

 private:
  DurableFile(std::filesystem::path temporary, UniqueFd fd) : temporary_(std::move(temporary)), fd_(std::move(fd)) {}

  std::filesystem::path temporary_;  // empty: published or moved from
  UniqueFd fd_;
};

}  // namespace jacserve::server
