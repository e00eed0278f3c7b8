#include "client/cpp/array_io/tensor_file.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "client/cpp/array_io/npz.h"
#include "client/cpp/array_io/safetensors.h"
#include "client/cpp/text.h"

namespace jacserve::client {

absl::StatusOr<NamedArrays> ReadTensorFile(const std::string& path) {
  if (absl::EndsWithIgnoreCase(path, ".npz")) return ReadNpz(path);
  if (absl::EndsWithIgnoreCase(path, ".safetensors")) return ReadSafetensors(path);
  return absl::InvalidArgumentError(Cat(path, ": weights are read from .npz or .safetensors files"));
}

}  // namespace jacserve::client
