// The .safetensors format: a JSON header with the place of every tensor, then raw numbers.
// In: a path; F32, F64, I32, I64 and BOOL tensors. Out: arrays by name, sharing the mapped file.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/array_io/array.h"
#include "client/cpp/array_io/file_bytes.h"

namespace jacserve::client {

// `name` is what errors call the file. InvalidArgument: not .safetensors, a damaged header, a type that jacserve does
// not read. DataLoss: the file is shorter or longer than its header says, or tensors overlap.
absl::StatusOr<NamedArrays> ParseSafetensors(const FileBytes& file, std::string_view name);

// ParseSafetensors of a file; further errors as of ReadFileBytes. In the order in which the data lie.
absl::StatusOr<NamedArrays> ReadSafetensors(const std::string& path);

}  // namespace jacserve::client
