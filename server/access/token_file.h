// Who may use this server: a file with the digests of their tokens.
// In: lines `NAME ROLE[,ROLE] SHA256`, the last in hex; blank lines and what follows a # are skipped. Out: who shows a
// token. The tokens themselves are nowhere here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace jacserve::server {

enum class Role {
  kCompute,  // describe models, compute Jacobians, see workers
  kUpload,   // upload graphs and tensors
  kWorker,   // join as a worker, fetch what it is asked to compute with
};

struct Caller {
  std::string name;
  std::set<Role> roles;
};

class TokenFile {
 public:
  // InvalidArgument: unreadable, without a line, or with one that is not as above, by its number.
  static absl::StatusOr<TokenFile> Read(const std::filesystem::path& path);

  // None: an unknown token. Takes as long for any token, whichever entries it differs from.
  std::optional<Caller> Find(std::string_view token) const;

 private:
  struct Entry {
    std::string digest;  // 32 raw bytes
    Caller caller;
  };
  std::vector<Entry> entries_;
};

std::string_view NameOf(Role role);

}  // namespace jacserve::server
