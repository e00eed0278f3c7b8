#include "common/cpu_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace jacserve {
namespace {

using testing::ElementsAre;

TEST(CpuListTest, ReadsNumbersAndRanges) {
  EXPECT_THAT(*ParseCpuList("0"), ElementsAre(0));
  EXPECT_THAT(*ParseCpuList("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(*ParseCpuList("8,2-3,2"), ElementsAre(2, 3, 8));
}

TEST(CpuListTest, RefusesEverythingElse) {
  for (const char* text : {"", ",", "1,", "-1", "3-1", "1-", "a", "1-2-3", "0x1", "100000", "1;2"}) {
    EXPECT_EQ(ParseCpuList(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace jacserve
