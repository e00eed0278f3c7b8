// Where local workers go: cores, GPUs, and the cores beside them.
#include "server/schedule/worker_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace jacserve::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(ShareCores, SharesAreDisjointAndEven) {
  EXPECT_THAT(ShareCores({0, 1}, 2), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(ShareCores({2, 3, 5, 7, 11}, 2), ElementsAre(ElementsAre(2, 3), ElementsAre(5, 7, 11)));
  EXPECT_THAT(ShareCores({4}, 1), ElementsAre(ElementsAre(4)));
  std::vector<int> cores(61);
  std::iota(cores.begin(), cores.end(), 0);
  std::multiset<int> used;
  for (const auto& share : ShareCores(cores, 8)) {
    EXPECT_TRUE(share.size() == 7 || share.size() == 8);
    used.insert(share.begin(), share.end());
  }
  EXPECT_EQ(used, std::multiset<int>(cores.begin(), cores.end()));
}

TEST(ShareCores, MoreWorkersThanCoresStillGetOneEach) {
  for (const auto& share : ShareCores({0, 1}, 5)) EXPECT_EQ(share.size(), 1u);
}

TEST(AutoWorkerCount, OneForEachOneOrTwoCores) {
  const std::vector<std::pair<int, int>> expected = {{1, 1}, {2, 2}, {4, 2}, {8, 4}, {64, 16}};
  for (const auto& [cores, workers] : expected) EXPECT_EQ(AutoWorkerCount(cores), workers) << cores << " cores";
}

const std::vector<Gpu> kTwo = {{"GPU-a", "A", "0000:01:00.0"}, {"GPU-b", "B", "0000:81:00.0"}};

TEST(ChoosePlaces, EachGpuHasTheCoresBesideIt) {
  const auto places = ChoosePlaces(WorkerDevice::kAuto, kAutoWorkers, {0, 1, 2, 3}, kTwo, {{2, 3, 9}, {0, 1}});
  ASSERT_TRUE(places.ok()) << places.status();
  ASSERT_THAT(*places, SizeIs(2));
  EXPECT_THAT((*places)[0].cores, ElementsAre(2, 3));
  EXPECT_THAT((*places)[1].cores, ElementsAre(0, 1));
  EXPECT_EQ((*places)[0].gpu->uuid, "GPU-a");
  EXPECT_EQ((*places)[1].backend, "cuda");
}

TEST(ChoosePlaces, GpusOnOneSideShareItsCores) {
  for (const std::vector<int>& side : {std::vector<int>{0, 1, 2, 3}, std::vector<int>{}}) {
    const auto places = ChoosePlaces(WorkerDevice::kCuda, kAutoWorkers, {0, 1, 2, 3}, kTwo, {side, side});
    ASSERT_TRUE(places.ok()) << places.status();
    EXPECT_THAT((*places)[0].cores, ElementsAre(0, 1));
    EXPECT_THAT((*places)[1].cores, ElementsAre(2, 3));
  }
}

TEST(ChoosePlaces, CountsAreOfGpusWhereThereAreAny) {
  EXPECT_THAT(*ChoosePlaces(WorkerDevice::kAuto, 1, {0, 1}, kTwo, {{}, {}}), SizeIs(1));
  const auto more = ChoosePlaces(WorkerDevice::kAuto, 3, {0, 1}, kTwo, {{}, {}});
  EXPECT_TRUE(absl::IsInvalidArgument(more.status()));
  EXPECT_THAT(std::string(more.status().message()), HasSubstr("2 GPUs"));
}

TEST(ChoosePlaces, TheCpuIsUsedWhenAskedForOrWhenThereIsNothingElse) {
  for (const auto& [device, backend] :
       {std::pair{WorkerDevice::kCpu, "cpu"}, {WorkerDevice::kReference, "reference"}}) {
    const auto places = ChoosePlaces(device, 3, {0, 1, 2}, kTwo, {{}, {}});
    ASSERT_THAT(*places, SizeIs(3));
    EXPECT_EQ((*places)[0].backend, backend);
    EXPECT_FALSE((*places)[0].gpu.has_value());
  }
  const absl::StatusOr<std::vector<Gpu>> none = absl::FailedPreconditionError("no driver");
  EXPECT_THAT(*ChoosePlaces(WorkerDevice::kAuto, kAutoWorkers, {0, 1}, none, {}), SizeIs(2));
  EXPECT_THAT(std::string(ChoosePlaces(WorkerDevice::kCuda, kAutoWorkers, {0, 1}, none, {}).status().message()),
              HasSubstr("no driver"));
}

}  // namespace
}  // namespace jacserve::server
