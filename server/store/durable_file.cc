#include "server/store/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace jacserve::server {
namespace {

absl::Status FileError(int error, const char* doing) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError("the server's disk is full; free space there or give it a smaller store quota");
  }
  return absl::InternalError(absl::StrCat("the server could not ", doing, ": ", std::strerror(error)));
}

}  // namespace

UniqueFd::UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) close(fd_);
}

absl::Status SyncDirectory(const std::filesystem::path& directory) {
  const UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || fsync(fd.get()) != 0) return FileError(errno, "make a directory durable");
  return absl::OkStatus();
}

absl::StatusOr<DurableFile> DurableFile::Create(std::filesystem::path temporary) {
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0) return FileError(errno, "create a file");
  return DurableFile(std::move(temporary), std::move(fd));
}

DurableFile::~DurableFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status DurableFile::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(errno, "write a file");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status DurableFile::Publish(const std::filesystem::path& name) {
  if (fsync(fd_.get()) != 0) return FileError(errno, "make a file durable");
  const std::filesystem::path directory = name.parent_path();
  std::error_code error;
  if (std::filesystem::create_directories(directory, error)) {
    RETURN_IF_ERROR(SyncDirectory(directory.parent_path()));
  }
  if (error) return FileError(error.value(), "create a directory");
  if (rename(temporary_.c_str(), name.c_str()) != 0) return FileError(errno, "rename a file");
  temporary_.clear();
  return SyncDirectory(directory);
}

}  // namespace jacserve::server
