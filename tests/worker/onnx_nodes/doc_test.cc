// docs/operators.md is what the operator table says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

TEST(OperatorsDoc, ListsEveryOperatorWithItsRange) {
  std::ifstream file(std::string(std::getenv("JACSERVE_GOLDEN")) + "/../../docs/operators.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const OpEntry& entry : OpTable()) {
    EXPECT_THAT(text, testing::HasSubstr(absl::StrCat("\n| ", std::string(entry.op_type), " | ", entry.since, " to ",
                                                      kNewestOpset, " |")));
  }
  EXPECT_THAT(text, testing::HasSubstr(absl::StrCat("\n", OpTable().size(), " operators. ")));
}

}  // namespace
}  // namespace jacserve::worker
