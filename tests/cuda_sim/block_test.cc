// Blocks of many threads on the host: every thread runs, barriers hold, and what a real block leaves undefined is told.
#include "tests/cuda_sim/runtime/block.h"

#include <numeric>

#include "tests/cuda_sim/sim_test.h"

namespace jacserve::cuda_sim {
namespace {

using testing::ElementsAre;

class BlockTest : public SimTest, public testing::WithParamInterface<Blocks> {
 protected:
  BlockTest() { Reset({.record_misuses = true, .blocks = GetParam()}); }
};

TEST_P(BlockTest, EveryThreadRunsOnce) {
  std::vector<int> ran(96);
  RunBlock(96, 0, [&] {
    EXPECT_EQ(BlockThreads(), 96);
    ++ran[BlockThread()];
  });
  EXPECT_EQ(ran, std::vector<int>(96, 1));
}

TEST_P(BlockTest, WhatIsWrittenBeforeABarrierIsThereBehindIt) {
  int sum = 0;
  RunBlock(64, 64 * sizeof(int), [&] {
    auto* shared = static_cast<int*>(SharedMemory());
    shared[BlockThread()] = BlockThread();
    SyncBlock();
    for (int half = 32; half > 0; half /= 2) {
      if (BlockThread() < half) shared[BlockThread()] += shared[BlockThread() + half];
      SyncBlock();
    }
    if (BlockThread() == 0) sum = shared[0];
  });
  EXPECT_EQ(sum, 64 * 63 / 2);
}

TEST_P(BlockTest, ABarrierThatSomeThreadsNeverMeetIsAMisuse) {
  RunBlock(4, 0, [] {
    if (BlockThread() < 2) SyncBlock();
  });
  ExpectMisuse("others wait at a barrier");
}

TEST_P(BlockTest, WritingBeyondTheSharedMemoryIsAMisuse) {
  RunBlock(2, 8, [] { static_cast<int*>(SharedMemory())[BlockThread() + 1] = 1; });
  ExpectMisuse("beyond its shared memory");
}

INSTANTIATE_TEST_SUITE_P(Orders, BlockTest, testing::Values(Blocks::kForward, Blocks::kBackward),
                         [](const auto& info) { return info.param == Blocks::kForward ? "Forward" : "Backward"; });

// A barrier too few: one of the orders shows it.
TEST(Blocks, AMissingBarrierShowsInOneOfTheOrders) {
  std::vector<int> seen;
  for (const Blocks order : {Blocks::kForward, Blocks::kBackward}) {
    Reset({.blocks = order});
    int from_the_last = 0;
    RunBlock(2, 2 * sizeof(int), [&] {
      auto* shared = static_cast<int*>(SharedMemory());
      shared[BlockThread()] = 7;
      if (BlockThread() == 0) from_the_last = shared[1];
    });
    seen.push_back(from_the_last);
  }
  EXPECT_THAT(seen, ElementsAre(-1, 7));
}

}  // namespace
}  // namespace jacserve::cuda_sim
