// The .npz format: a zip archive of .npy members, stored or deflated.
// In: a path. Out: arrays by name (the member's without ".npy").
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/array_io/array.h"

namespace jacserve::client {

class NpzFile {
 public:
  // NotFound: no such file. InvalidArgument: not a zip archive, or damaged; a member that is not .npy; a name twice.
  static absl::StatusOr<NpzFile> Open(const std::string& path);

  NpzFile(NpzFile&&) noexcept;
  NpzFile& operator=(NpzFile&&) noexcept;
  ~NpzFile();

  const std::vector<std::string>& names() const;  // in the archive's order
  bool Has(std::string_view name) const;

  // Reads one member into memory. NotFound: no such name. DataLoss: cut short or a wrong checksum. InvalidArgument: as
  // ParseNpy, or a size that the archive cannot hold.
  absl::StatusOr<Array> Read(std::string_view name) const;

 private:
  struct State;
  explicit NpzFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Every member, in the archive's order.
absl::StatusOr<NamedArrays> ReadNpz(const std::string& path);

}  // namespace jacserve::client
