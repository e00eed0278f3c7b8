#include "common/token.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace jacserve {
namespace {

constexpr size_t kLongestToken = 1'024;

}  // namespace

std::string NewToken() {
  std::string bytes(32, '\0');
  JACSERVE_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) == 1);
  return absl::BytesToHexString(bytes);
}

absl::StatusOr<std::string> TokenFrom(const std::string& path) {
  std::string token;
  if (path.empty()) {
    const char* set = std::getenv("JACSERVE_TOKEN");
    token = set == nullptr ? "" : set;
  } else {
    std::ifstream file(path);
    if (!file || !std::getline(file, token)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": no token can be read there"));
    }
  }
  absl::StripAsciiWhitespace(&token);
  const bool printable = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 127; });
  if (printable && token.size() <= kLongestToken && (path.empty() || !token.empty())) return token;
  return absl::InvalidArgumentError(absl::StrCat(path.empty() ? "JACSERVE_TOKEN" : path, ": a token is up to ",
                                                 kLongestToken, " letters and digits"));
}

std::string TokenOf(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find(kTokenKey);
  if (found == context.client_metadata().end()) return "";
  const std::string_view value(found->second.data(), found->second.size());
  return value.starts_with(kTokenScheme) ? std::string(value.substr(sizeof kTokenScheme - 1)) : "";
}

bool SameSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::Status CheckListenAddress(std::string_view listen) {
  if (!listen.starts_with("unix-abstract:")) return absl::OkStatus();
  return absl::InvalidArgumentError("an abstract socket is open to everybody; give HOST:PORT or unix:PATH");
}

bool CameThroughSocketFile(const grpc::ServerContext& context) { return absl::StartsWith(context.peer(), "unix:"); }

bool IsOnlyLocal(std::string_view listen) {
  if (listen.starts_with("unix:")) return true;
  const std::string_view host = listen.substr(0, listen.rfind(':'));
  const bool number = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return (number && host.starts_with("127.")) || host == "localhost" || host == "[::1]";
}

}  // namespace jacserve
