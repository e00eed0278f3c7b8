#include "server/access/token_file.h"

#include <fstream>
#include <span>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/digest.h"
#include "common/status.h"
#include "common/token.h"

namespace jacserve::server {
namespace {

constexpr Role kRoles[] = {Role::kCompute, Role::kUpload, Role::kWorker};

absl::StatusOr<std::set<Role>> ParseRoles(const std::string& text) {
  std::set<Role> roles;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(text, ','))) {
    bool known = false;
    for (const Role role : kRoles) {
      if (NameOf(role) != word) continue;
      roles.insert(role);
      known = true;
    }
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat("'", word, "' is no role; there are compute, upload and worker"));
    }
  }
  return roles;
}

bool IsHexDigest(const std::string& text) {
  return text.size() == 2 * kDigestBytes && text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
}

}  // namespace

std::string_view NameOf(Role role) {
  switch (role) {
    case Role::kCompute:
      return "compute";
    case Role::kUpload:
      return "upload";
    case Role::kWorker:
      return "worker";
  }
  return "";
}

absl::StatusOr<TokenFile> TokenFile::Read(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return absl::InvalidArgumentError(absl::StrCat("tokens ", path.string(), ": cannot be read"));
  TokenFile tokens;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line = line.substr(0, line.find('#'));
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const std::string where = absl::StrCat("tokens ", path.string(), ", line ", number, ": ");
    if (words.size() != 3 || !IsHexDigest(words[2])) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "give NAME ROLE[,ROLE] SHA256, as `jacserve token` prints"));
    }
    absl::StatusOr<std::set<Role>> roles = ParseRoles(words[1]);
    if (!roles.ok()) return absl::InvalidArgumentError(absl::StrCat(where, roles.status().message()));
    tokens.entries_.push_back({absl::HexStringToBytes(words[2]), {words[0], *std::move(roles)}});
  }
  if (!file.bad() && !tokens.entries_.empty()) return tokens;
  return absl::InvalidArgumentError(
      absl::StrCat("tokens ", path.string(), ": holds no line; nobody could use the server"));
}

std::optional<Caller> TokenFile::Find(std::string_view token) const {
  const std::string digest = Sha256Of(std::as_bytes(std::span(token)));
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    if (SameSecret(entry.digest, digest)) found = &entry;
  }
  return found == nullptr ? std::nullopt : std::optional(found->caller);
}

}  // namespace jacserve::server
