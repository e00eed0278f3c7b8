// One array being filled: a .npy file at its final size, written in place wherever pieces belong.
// In: its type and shape, then pieces at byte positions. Out: a complete file under its final name.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/array_io/file_bytes.h"
#include "client/cpp/row_receiver.h"

namespace jacserve::client {

class PartFile {
 public:
  // Opens `path`, or creates it with its header and reserves its space. An existing file of another size or header is
  // an error (FailedPrecondition). ResourceExhausted: no space for it. `name` is what errors call it.
  static absl::StatusOr<PartFile> Open(const std::string& path, DType dtype, const Shape& shape);

  // Size of the file that Open makes, in bytes.
  static int64_t SizeBytes(DType dtype, const Shape& shape);

  // byte_begin: within the array. ResourceExhausted: disk full.
  absl::Status Write(int64_t byte_begin, Pieces pieces);

  // Fills `out` from bytes [byte_begin, byte_begin + out.size()) of the array.
  absl::Status Read(int64_t byte_begin, std::span<std::byte> out) const;

  // Makes what was written durable; nothing to do when nothing was written since.
  absl::Status Sync();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor file_;
  int64_t header_bytes_ = 0;
  bool unsynced_ = false;
};

}  // namespace jacserve::client
