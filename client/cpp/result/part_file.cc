#include "client/cpp/result/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "client/cpp/array_io/npy.h"
#include "client/cpp/text.h"
#include "common/size_text.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

constexpr int kPiecesPerCall = 64;

absl::Status NoSpace(int error_number, int fd, const std::string& path, int64_t size_bytes) {
  struct statvfs space;
  std::string free_text;
  if (error_number == ENOSPC && ::fstatvfs(fd, &space) == 0) {
    free_text = Cat("; ", SizeText(static_cast<int64_t>(space.f_bavail * space.f_frsize)), " are free");
  }
  const absl::Status reason = FileError(error_number, path, Cat("no room for its ", SizeText(size_bytes)));
  return absl::Status(reason.code(), Cat(std::string(reason.message()), free_text,
                                         ". Free some space or choose another folder with --out, then start again"));
}

// Takes the space now, so that a full disk is known before anything is computed.
absl::Status Reserve(int fd, const std::string& path, int64_t size_bytes) {
  int result = 0;
  do {
    result = ::fallocate(fd, 0, 0, size_bytes);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return absl::OkStatus();
  if (errno != EOPNOTSUPP && errno != ENOSYS) return NoSpace(errno, fd, path, size_bytes);
  if (::ftruncate(fd, size_bytes) != 0) return NoSpace(errno, fd, path, size_bytes);
  return absl::OkStatus();
}

}  // namespace

int64_t PartFile::SizeBytes(DType dtype, const Shape& shape) {
  return static_cast<int64_t>(EncodeNpyHeader(dtype, shape).size()) + Elements(shape) * SizeOf(dtype);
}

absl::StatusOr<PartFile> PartFile::Open(const std::string& path, DType dtype, const Shape& shape) {
  const std::string header = EncodeNpyHeader(dtype, shape);
  PartFile part;
  part.path_ = path;
  part.header_bytes_ = static_cast<int64_t>(header.size());
  part.file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!part.file_.is_open()) return FileError(errno, path, "cannot be created");
  struct stat info;
  if (::fstat(part.file_.get(), &info) != 0) return FileError(errno, path, "cannot be read");
  const std::span<const std::byte> header_bytes = std::as_bytes(std::span<const char>(header));
  if (info.st_size == 0) {
    RETURN_IF_ERROR(Reserve(part.file_.get(), path, SizeBytes(dtype, shape)));
    RETURN_IF_ERROR(WriteAt(part.file_.get(), header_bytes, 0, path));
    part.unsynced_ = true;
    return part;
  }
  std::string found(header.size(), '\0');
  const ssize_t got = ::pread(part.file_.get(), found.data(), found.size(), 0);
  if (got != static_cast<ssize_t>(found.size()) || found != header || info.st_size != SizeBytes(dtype, shape)) {
    return absl::FailedPreconditionError(Cat(path, ": holds something else than an earlier run left there"));
  }
  return part;
}

absl::Status PartFile::Write(int64_t byte_begin, Pieces pieces) {
  unsynced_ = true;
  int64_t at = header_bytes_ + byte_begin;
  std::array<struct iovec, kPiecesPerCall> vectors;
  while (!pieces.empty()) {
    const size_t count = std::min(pieces.size(), vectors.size());
    int64_t size = 0;
    for (size_t i = 0; i < count; ++i) {
      vectors[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
      size += static_cast<int64_t>(pieces[i].size());
    }
    ssize_t put = ::pwritev(file_.get(), vectors.data(), static_cast<int>(count), static_cast<off_t>(at));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return FileError(errno, path_, "cannot be written");
    // What a short write left over goes piece by piece; the next attempt tells why it was short.
    int64_t piece_begin = 0;
    for (size_t i = 0; put < size && i < count; ++i) {
      const auto piece_size = static_cast<int64_t>(pieces[i].size());
      const int64_t skip = std::clamp<int64_t>(put - piece_begin, 0, piece_size);
      RETURN_IF_ERROR(
          WriteAt(file_.get(), pieces[i].subspan(static_cast<size_t>(skip)), at + piece_begin + skip, path_));
      piece_begin += piece_size;
    }
    at += size;
    pieces = pieces.subspan(count);
  }
  return absl::OkStatus();
}

absl::Status PartFile::Read(int64_t byte_begin, std::span<std::byte> out) const {
  int64_t at = header_bytes_ + byte_begin;
  while (!out.empty()) {
    const ssize_t got = ::pread(file_.get(), out.data(), out.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, path_, "cannot be read");
    if (got == 0) return absl::DataLossError(Cat(path_, ": became shorter while it was used"));
    at += got;
    out = out.subspan(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

absl::Status PartFile::Sync() {
  if (!unsynced_) return absl::OkStatus();
  if (::fdatasync(file_.get()) != 0) return FileError(errno, path_, "cannot be made durable");
  unsynced_ = false;
  return absl::OkStatus();
}

}  // namespace jacserve::client
