// Shards cover the rows once, are cut at tiles, and end small.
#include "server/plan/shard_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace jacserve::server {
namespace {

TEST(PlanShards, NoRowsNoShards) { EXPECT_TRUE(PlanShards({}).empty()); }

// The full-size problem: 3,136 rows of 4.56 MB, 44 MFLOP each, for two workers.
PlanInput SeedInput() {
  PlanInput input;
  input.missing = {{0, 3136}};
  input.row_tile = 8;
  input.workers = 2;
  input.row_bytes = 4'556'672;
  input.flops_per_row = 4.4e7;
  return input;
}

TEST(PlanShards, KeepsEveryWorkerBusyToTheEnd) {
  const std::vector<RowRange> shards = PlanShards(SeedInput());
  EXPECT_GE(shards.size(), 10u);
  EXPECT_LE(shards.size(), 100u);
  EXPECT_LE(shards.front().count, 3136 / 4);
  // Whoever takes the last shards holds the others up for little.
  EXPECT_LE(shards.back().count, 3136 / 50);
  EXPECT_LE(shards[shards.size() - 2].count, 3136 / 50);
}

TEST(PlanShards, CheapRowsAreNotCutUp) {
  PlanInput input = SeedInput();
  input.row_bytes = 16;
  input.flops_per_row = 100;
  EXPECT_EQ(PlanShards(input).size(), 1u);
}

TEST(PlanShards, ManyRowsMakeABoundedNumberOfShards) {
  PlanInput input = SeedInput();
  input.missing = {{0, int64_t{1} << 40}};
  EXPECT_LE(PlanShards(input).size(), 3000u);
}

TEST(PlanShards, OneRowPerShardWhenRowsAreHuge) {
  PlanInput input;
  input.missing = {{5, 3}};
  input.row_bytes = int64_t{8} << 30;
  EXPECT_EQ(PlanShards(input).size(), 3u);
}

TEST(PlanShards, AnyInputIsCoveredOnceAndCutAtTiles) {
  std::mt19937 random(7);
  const auto upto = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random); };
  for (int round = 0; round < 2000; ++round) {
    PlanInput input;
    int64_t next = 0;
    for (int64_t ranges = upto(5); ranges > 0; --ranges) {
      const RowRange range{next + 1 + upto(100), 1 + upto(2000)};
      input.missing.push_back(range);
      next = range.end();
    }
    input.row_tile = 1 + upto(40);
    input.workers = 1 + upto(20);
    input.row_bytes = upto(int64_t{1} << (1 + upto(30)));
    input.flops_per_row = static_cast<double>(upto(1'000'000'000));
    RowSet covered;
    int64_t rows = 0;
    for (const RowRange& shard : PlanShards(input)) {
      ASSERT_GE(shard.count, 1);
      rows += shard.count;
      covered.Add(shard);
      const bool begins_a_range =
          std::any_of(input.missing.begin(), input.missing.end(), [&](RowRange r) { return r.begin == shard.begin; });
      ASSERT_TRUE(begins_a_range || shard.begin % input.row_tile == 0) << "round " << round;
    }
    ASSERT_EQ(covered.Ranges(), input.missing) << "round " << round;
    ASSERT_EQ(rows, covered.count()) << "round " << round;
  }
}

}  // namespace
}  // namespace jacserve::server
