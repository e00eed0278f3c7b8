// Uploads through a real coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cluster/cluster.h"

namespace jacserve::cluster {
namespace {

using ::testing::HasSubstr;

TEST(Uploads, SurviveARestartOfTheCoordinator) {
  Cluster cluster;
  const std::string tensor(3'000'000, 't');
  ASSERT_TRUE(cluster.Upload(tensor).ok());
  cluster.RestartCoordinator();
  EXPECT_TRUE(cluster.Holds(tensor));
  EXPECT_FALSE(cluster.Holds("something else"));
}

TEST(Uploads, AreAcknowledgedWhenAlreadyThere) {
  Cluster cluster;
  const std::string tensor(3'000'000, 't');
  EXPECT_TRUE(cluster.Upload(tensor).ok());
  EXPECT_TRUE(cluster.Upload(tensor).ok());
  EXPECT_TRUE(cluster.Upload("").ok());
  EXPECT_TRUE(cluster.Holds(""));
}

TEST(Uploads, OverQuotaIsRefusedWithFigures) {
  server::CoordinatorOptions options = Cluster::FastOptions();
  options.store_quota_bytes = 1 << 20;
  Cluster cluster(options);
  const std::string tensor(2 << 20, 't');
  const absl::Status status = cluster.Upload(tensor);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("2.0 MiB"));
  EXPECT_THAT(status.message(), HasSubstr("1.0 MiB"));
  EXPECT_FALSE(cluster.Holds(tensor));
  EXPECT_TRUE(cluster.Upload(std::string(1000, 's')).ok());
}

TEST(Uploads, WrongAnnouncementsAreRefused) {
  Cluster cluster;
  EXPECT_TRUE(absl::IsInvalidArgument(cluster.Upload("abc", 2)));
  EXPECT_TRUE(absl::IsInvalidArgument(cluster.Upload("abc", 4)));
  EXPECT_TRUE(absl::IsInvalidArgument(cluster.Upload("abc", -1)));
  EXPECT_TRUE(absl::IsInvalidArgument(cluster.Upload("abc", 3, std::string(32, 'd'))));
  EXPECT_TRUE(absl::IsInvalidArgument(cluster.Upload("abc", 3, "short")));
  EXPECT_FALSE(cluster.Holds("abc"));
}

}  // namespace
}  // namespace jacserve::cluster
