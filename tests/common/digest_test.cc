// sha256 against the standard's own examples.
#include "common/digest.h"

#include <gtest/gtest.h>

#include <string>

namespace jacserve {
namespace {

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(DigestTest, MatchesTheStandard) {
  EXPECT_EQ(HexOf(Sha256Of(Bytes(""))), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf(Sha256Of(Bytes("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(DigestTest, PiecesGiveTheSameDigest) {
  const std::string text(100'000, 'x');
  Sha256 hash;
  for (size_t begin = 0; begin < text.size(); begin += 999)
    hash.Update(Bytes(std::string_view(text).substr(begin, 999)));
  const std::string digest = hash.Finish();
  EXPECT_EQ(digest.size(), kDigestBytes);
  EXPECT_EQ(digest, Sha256Of(Bytes(text)));
}

}  // namespace
}  // namespace jacserve
