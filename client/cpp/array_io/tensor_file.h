// Files of named tensors, whichever format they have. In: a path. Out: arrays by name.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/array_io/array.h"

namespace jacserve::client {

// By the file's ending: .npz or .safetensors; InvalidArgument for any other. Further errors: NpzFile, ParseSafetensors.
absl::StatusOr<NamedArrays> ReadTensorFile(const std::string& path);

}  // namespace jacserve::client
