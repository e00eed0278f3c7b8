// sha256 keys of blobs. In: bytes, at once or in pieces. Out: 32 raw bytes, or hex for people and file names.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace jacserve {

constexpr size_t kDigestBytes = 32;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Update(std::span<const std::byte> bytes);
  std::string Finish();  // 32 raw bytes; call once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Sha256Of(std::span<const std::byte> bytes);
std::string HexOf(std::string_view digest);

}  // namespace jacserve
