// The one log format, and levels by name.
#include "common/logging.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <string>

namespace jacserve {
namespace {

TEST(LoggingTest, WritesOneFormatToStderr) {
  testing::internal::CaptureStderr();
  ASSERT_TRUE(InitLogging("jacserve-test", "warning").ok());
  spdlog::info("not wanted");
  spdlog::warn("rows {} to {}", 1, 2);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("not wanted"), std::string::npos);
  EXPECT_TRUE(testing::internal::RE::FullMatch(
      text, "[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9]+Z warning jacserve-test\\[[0-9]+\\] rows 1 to 2\n"))
      << text;
}

TEST(LoggingTest, LevelsAreWords) {
  for (const char* level : {"trace", "debug", "info", "warning", "error", "off"}) {
    EXPECT_TRUE(InitLogging("jacserve-test", level).ok()) << level;
  }
  for (const char* level : {"", "loud", "INFO ", "3"}) {
    EXPECT_EQ(InitLogging("jacserve-test", level).code(), absl::StatusCode::kInvalidArgument) << level;
  }
}

}  // namespace
}  // namespace jacserve
