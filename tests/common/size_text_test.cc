// Sizes and durations as people write and read them.
#include "common/size_text.h"

#include <gtest/gtest.h>

namespace jacserve {
namespace {

TEST(ParseSizeTest, ReadsUnits) {
  struct Case {
    const char* text;
    int64_t bytes;
  };
  const Case cases[] = {{"4096", 4096},
                        {"1", 1},
                        {"17b", 17},
                        {"512MiB", 512 << 20},
                        {"512mib", 512 << 20},
                        {"512 MiB", 512 << 20},
                        {"2GiB", int64_t{2} << 30},
                        {"1TiB", int64_t{1} << 40},
                        {"8KiB", 8192},
                        {"1.5GB", 1'500'000'000},
                        {"3kB", 3000},
                        {"0.5KiB", 512},
                        {"1.0", 1},
                        {"9223372036854775807", 9223372036854775807}};
  for (const Case& c : cases) {
    absl::StatusOr<int64_t> bytes = ParseSize(c.text);
    ASSERT_TRUE(bytes.ok()) << c.text << ": " << bytes.status();
    EXPECT_EQ(*bytes, c.bytes) << c.text;
  }
}

TEST(ParsePercentTest, ReadsOneToAHundred) {
  EXPECT_EQ(*ParsePercent("80%"), 80);
  EXPECT_EQ(*ParsePercent("100%"), 100);
  for (const char* text : {"", "%", "0%", "101%", "-1%", "80", "8.5%", "a%"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParsePercent(text).status())) << text;
  }
  EXPECT_TRUE(CheckSizeOrPercent("80%").ok());
  EXPECT_TRUE(CheckSizeOrPercent("512MiB").ok());
  EXPECT_FALSE(CheckSizeOrPercent("180%").ok());
  EXPECT_FALSE(CheckSizeOrPercent("many").ok());
}

TEST(ParseSizeTest, RefusesEverythingElse) {
  for (const char* text : {"",
                           " ",
                           "MiB",
                           "-1",
                           "-5MiB",
                           "0",
                           "0MiB",
                           "0.0001",
                           "12 parsecs",
                           "1MiBs",
                           "1 2",
                           "1..5GB",
                           "1e9",
                           "nan",
                           "inf",
                           "0x10",
                           "9223372036854775808",
                           "8388608TiB",
                           "1,5GB",
                           "5M",
                           "MiB5"}) {
    absl::StatusOr<int64_t> bytes = ParseSize(text);
    ASSERT_FALSE(bytes.ok()) << text << " was read as " << *bytes;
    EXPECT_EQ(bytes.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(bytes.status().message().find(text), std::string::npos);
  }
}

TEST(SizeTextTest, PicksTheUnit) {
  EXPECT_EQ(SizeText(0), "0 B");
  EXPECT_EQ(SizeText(1023), "1023 B");
  EXPECT_EQ(SizeText(1024), "1.0 KiB");
  EXPECT_EQ(SizeText((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(SizeText(512 << 20), "512.0 MiB");
  EXPECT_EQ(SizeText(int64_t{5} << 50), "5120.0 TiB");
}

TEST(DurationTextTest, PicksTheUnit) {
  EXPECT_EQ(DurationText(0.42), "0.42 s");
  EXPECT_EQ(DurationText(9.999), "10 s");
  EXPECT_EQ(DurationText(12.3), "12 s");
  EXPECT_EQ(DurationText(59.6), "1 min 00 s");
  EXPECT_EQ(DurationText(185), "3 min 05 s");
  EXPECT_EQ(DurationText(7260), "2 h 01 min");
  EXPECT_EQ(DurationText(-1), "unknown");
}

}  // namespace
}  // namespace jacserve
