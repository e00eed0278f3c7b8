// The .npy format: one array a file, a small text header, then raw numbers.
// In: bytes or a path; format versions 1 to 3, little-endian, C or Fortran order, f4 f8 i4 i8 b1.
// Out: arrays in C order; or headers and files that numpy reads.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/array_io/array.h"
#include "client/cpp/array_io/file_bytes.h"

namespace jacserve::client {

struct NpyHeader {
  DType dtype = DType::kFloat32;
  bool fortran_order = false;
  Shape shape;
  int64_t data_offset = 0;  // bytes before the first number
};

// `name` is what errors call the array. InvalidArgument: not .npy, damaged, or a type that jacserve does not read.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::span<const std::byte> file, std::string_view name);

// The whole array; Fortran order is copied into C order. InvalidArgument as above; DataLoss: shorter or longer than the
// header says.
absl::StatusOr<Array> ParseNpy(const FileBytes& file, std::string_view name);

// ParseNpy of a file; further errors as of ReadFileBytes.
absl::StatusOr<Array> ReadNpy(const std::string& path);

// Header of a C-order array, a multiple of 64 bytes long.
std::string EncodeNpyHeader(DType dtype, std::span<const int64_t> shape);

// Writes the file whole or not at all. ResourceExhausted: no space left.
absl::Status WriteNpy(const std::string& path, const Array& array);

}  // namespace jacserve::client
