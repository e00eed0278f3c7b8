// Files as bytes: read whole or mapped when large, and written so that a name never shows a half-written file.
// In: paths as the user typed them. Out: bytes, or a status with that path and the system's reason.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace jacserve::client {

// Files from this size on are mapped instead of read.
constexpr int64_t kMapFromBytes = int64_t{1} << 20;

// "PATH: DOING: the system's reason". A full disk, a quota and a file-size limit are ResourceExhausted.
absl::Status FileError(int error_number, std::string_view path, std::string_view doing);

struct FileBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep_alive;
};

// NotFound: no such file. InvalidArgument: not a regular file, or larger than `limit_bytes`.
absl::StatusOr<FileBytes> ReadFileBytes(const std::string& path, int64_t limit_bytes = int64_t{1} << 46);

// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { Close(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void Close();

 private:
  int fd_ = -1;
};

// Writes PATH.part, makes it durable and renames it to PATH. On an error PATH is as it was, and PATH.part is gone.
absl::Status WriteFileAtomically(const std::string& path, std::span<const std::span<const std::byte>> parts);
absl::Status WriteFileAtomically(const std::string& path, std::string_view text);

// Writes all of `bytes` at `offset`.
absl::Status WriteAt(int fd, std::span<const std::byte> bytes, int64_t offset, std::string_view path);

// Makes renames within the folder of `path` durable.
absl::Status SyncFolderOf(const std::string& path);

}  // namespace jacserve::client
