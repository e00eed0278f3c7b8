#include "client/cpp/array_io/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "client/cpp/text.h"
#include "common/size_text.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

// Everything of a file that is too small to be worth a mapping.
absl::StatusOr<FileBytes> ReadSmall(int fd, const std::string& path, size_t size) {
  auto buffer = std::make_shared<std::vector<std::byte>>(size);
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(fd, buffer->data() + done, size - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, path, "cannot be read");
    if (got == 0) return absl::DataLossError(Cat(path, ": became shorter while it was read"));
    done += static_cast<size_t>(got);
  }
  const std::span<const std::byte> bytes(*buffer);
  return FileBytes{bytes, std::move(buffer)};
}

absl::StatusOr<FileBytes> MapLarge(int fd, const std::string& path, size_t size) {
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) return FileError(errno, path, "cannot be mapped");
  std::shared_ptr<const void> mapping(address, [size](const void* start) { ::munmap(const_cast<void*>(start), size); });
  return FileBytes{{static_cast<const std::byte*>(address), size}, std::move(mapping)};
}

}  // namespace

absl::Status FileError(int error_number, std::string_view path, std::string_view doing) {
  const std::string message = Cat(path, ": ", doing, ": ", std::strerror(error_number));
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::ErrnoToStatus(error_number, Cat(path, ": ", doing));
  }
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Descriptor::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

absl::StatusOr<FileBytes> ReadFileBytes(const std::string& path, int64_t limit_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return FileError(errno, path, "cannot be opened");
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return FileError(errno, path, "cannot be read");
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(Cat(path, ": not a file"));
  if (info.st_size > limit_bytes) {
    return absl::InvalidArgumentError(
        Cat(path, ": ", SizeText(info.st_size), " is more than the ", SizeText(limit_bytes), " allowed here"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  return info.st_size < kMapFromBytes ? ReadSmall(file.get(), path, size) : MapLarge(file.get(), path, size);
}

absl::Status WriteAt(int fd, std::span<const std::byte> bytes, int64_t offset, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return FileError(errno, path, "cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(put));
    offset += put;
  }
  return absl::OkStatus();
}

absl::Status SyncFolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor handle(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle.is_open()) return FileError(errno, folder, "cannot be opened");
  // Some file systems cannot sync a folder; the rename itself has happened all the same.
  if (::fsync(handle.get()) != 0 && errno != EINVAL) return FileError(errno, folder, "cannot be made durable");
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  const std::string part_path = Cat(path, ".part");
  Descriptor file(::open(part_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.is_open()) return FileError(errno, path, "cannot be created");
  absl::Status status;
  int64_t offset = 0;
  for (std::span<const std::byte> part : parts) {
    if (status = WriteAt(file.get(), part, offset, path); !status.ok()) break;
    offset += static_cast<int64_t>(part.size());
  }
  if (status.ok() && ::fsync(file.get()) != 0) status = FileError(errno, path, "cannot be made durable");
  file.Close();
  if (status.ok() && ::rename(part_path.c_str(), path.c_str()) != 0)
    status = FileError(errno, path, "cannot be renamed");
  if (!status.ok()) {
    ::unlink(part_path.c_str());
    return status;
  }
  return SyncFolderOf(path);
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view text) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span<const char>(text.data(), text.size()));
  return WriteFileAtomically(path, std::span<const std::span<const std::byte>>(&bytes, 1));
}

}  // namespace jacserve::client
