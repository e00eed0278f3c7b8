// Files of tokens: who is known, and what is wrong with a line.
#include "server/access/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <span>

#include "common/digest.h"

namespace jacserve::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string DigestOf(const std::string& token) { return HexOf(Sha256Of(std::as_bytes(std::span(token)))); }

absl::StatusOr<TokenFile> Read(const std::string& text) {
  const std::string path = testing::TempDir() + "tokens";
  std::ofstream(path) << text;
  return TokenFile::Read(path);
}

TEST(TokenFile, KnowsWhoseATokenIs) {
  const auto tokens =
      Read("# staff\nann  compute,upload\t" + DigestOf("a") + "  # since May\r\n\nbox worker " + DigestOf("b") + "\n");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const std::optional<Caller> ann = tokens->Find("a"), box = tokens->Find("b");
  ASSERT_TRUE(ann && box);
  EXPECT_EQ(ann->name, "ann");
  EXPECT_THAT(ann->roles, ElementsAre(Role::kCompute, Role::kUpload));
  EXPECT_THAT(box->roles, ElementsAre(Role::kWorker));
  for (const char* unknown : {"", "c", "aa"}) EXPECT_FALSE(tokens->Find(unknown).has_value()) << unknown;
  EXPECT_FALSE(tokens->Find(DigestOf("a")).has_value()) << "who has read the file is not let in";
}

TEST(TokenFile, NamesTheLineThatIsWrong) {
  const std::pair<std::string, const char*> cases[] = {
      {"ann compute\n", "line 1: give NAME ROLE"},
      {"\nann compute " + DigestOf("a").substr(1), "line 2: give NAME ROLE"},
      {"ann compute " + std::string(64, 'x'), "line 1: give NAME ROLE"},
      {"ann compute " + DigestOf("a") + " more", "line 1: give NAME ROLE"},
      {"ann king " + DigestOf("a"), "'king' is no role; there are compute, upload and worker"},
      {"ann compute, " + DigestOf("a"), "'' is no role"},
  };
  for (const auto& [text, words] : cases) {
    const absl::Status status = Read(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words)) << text;
  }
  for (const char* empty : {"", "# nobody\n\n"}) {
    EXPECT_THAT(std::string(Read(empty).status().message()), HasSubstr("holds no line"));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(TokenFile::Read(testing::TempDir()).status())) << "a folder";
  EXPECT_THAT(std::string(TokenFile::Read("/nowhere").status().message()), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace jacserve::server
