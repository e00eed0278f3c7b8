// Who can reach an address, and what a token may be.
#include "common/token.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace jacserve {
namespace {

TEST(IsOnlyLocal, IsTrueOfThisMachineAlone) {
  for (const char* local : {"127.0.0.1:0", "127.1.2.3:50051", "localhost:1", "[::1]:0", "unix:/tmp/socket"}) {
    EXPECT_TRUE(IsOnlyLocal(local)) << local;
  }
  for (const char* open : {"0.0.0.0:0", "[::]:0", ":50051", "*:1", "10.0.0.1:1", "127.example.com:1", "localhost.org:1",
                           "[::ffff:0.0.0.0]:1", ""}) {
    EXPECT_FALSE(IsOnlyLocal(open)) << open;
  }
}

TEST(NewToken, IsAnotherEachTime) {
  EXPECT_EQ(NewToken().size(), 64u);
  EXPECT_NE(NewToken(), NewToken());
}

TEST(SameSecret, ComparesAllOfIt) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "abcd", "bbc"}) EXPECT_FALSE(SameSecret("abc", other)) << other;
}

TEST(TokenFrom, TakesTheFirstLineElseTheEnvironment) {
  const std::string path = testing::TempDir() + "token";
  std::ofstream(path) << "  secret\r\nmore\n";
  EXPECT_EQ(*TokenFrom(path), "secret");
  setenv("JACSERVE_TOKEN", "other", 1);
  EXPECT_EQ(*TokenFrom(path), "secret");
  EXPECT_EQ(*TokenFrom(""), "other");
  for (const std::string& wrong : {std::string(), std::string("two words"), std::string(2'000, 'x')}) {
    std::ofstream(path) << wrong << "\n";
    EXPECT_TRUE(absl::IsInvalidArgument(TokenFrom(path).status())) << wrong;
  }
  setenv("JACSERVE_TOKEN", "two words", 1);
  EXPECT_TRUE(absl::IsInvalidArgument(TokenFrom("").status()));
  unsetenv("JACSERVE_TOKEN");
  EXPECT_EQ(*TokenFrom(""), "");
  EXPECT_TRUE(absl::IsInvalidArgument(TokenFrom("/nowhere").status()));
}

}  // namespace
}  // namespace jacserve
