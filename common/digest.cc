#include "common/digest.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "common/status.h"

namespace jacserve {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  JACSERVE_CHECK(state_->context != nullptr);
  JACSERVE_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  JACSERVE_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Finish() {
  std::string digest(kDigestBytes, '\0');
  unsigned size = 0;
  JACSERVE_CHECK(EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(digest.data()), &size) == 1);
  JACSERVE_CHECK(size == kDigestBytes);
  return digest;
}

std::string Sha256Of(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

std::string HexOf(std::string_view digest) { return absl::BytesToHexString({digest.data(), digest.size()}); }

}  // namespace jacserve
