// The GPU's memory and its failures, on the simulated GPU: budgets, halving, errors that stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/budget_status.h"
#include "tests/cuda_sim/cuda_sim.h"
#include "tests/worker/engine/golden_case.h"
#include "worker/backend/cuda/cuda_backend.h"

namespace jacserve::worker {
namespace {

using testing::HasSubstr;

constexpr int64_t kAmple = int64_t{2} << 30;

class GpuMemory : public testing::Test {
 protected:
  void Start(cuda_sim::Options options = {}) { cuda_sim::Reset(std::move(options)); }

  static absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(int64_t budget, int threads = 3) {
    return Engine::Create(LoadGoldenCase("pairwise_keras_cosine", false).problem,
                          {BackendKind::kCuda, budget, threads});
  }
  struct Result {
    absl::Status status;
    std::vector<std::vector<std::byte>> blocks;
    int64_t rows_done = 0;
  };
  static Result Compute(Engine& engine) {
    const RowRange all{0, engine.layout().rows};
    Gather gather(engine.layout(), all);
    Result result{engine.ComputeRows(all, gather, [] { return false; })};
    result.blocks = gather.blocks();
    result.rows_done = gather.rows_done();
    return result;
  }
  // What an unhindered GPU gives.
  Result Expected() {
    Start();
    return Compute(**MakeEngine(kAmple));
  }
};

TEST_F(GpuMemory, PeakStaysWithinTheBudgetAtEveryBudget) {
  Start();
  const int64_t smallest = *SmallestBudgetOf(MakeEngine(1).status());
  for (const int64_t budget : {smallest, smallest * 3 / 2, 3 * smallest, kAmple}) {
    Start();
    {
      const auto engine = MakeEngine(budget);
      ASSERT_TRUE(engine.ok()) << engine.status();
      EXPECT_TRUE(Compute(**engine).status.ok());
      EXPECT_LE(cuda_sim::Read().peak_bytes, budget);
    }
    EXPECT_THAT(cuda_sim::Leaks(), testing::IsEmpty()) << "an engine gives everything back";
  }
}

// The device has less than the budget allows: threads and kept samples go, the bits stay.
TEST_F(GpuMemory, LessThanTheBudgetHalvesWhatIsInFlight) {
  const Result expected = Expected();
  Start();
  const int64_t smallest = *SmallestBudgetOf(MakeEngine(1).status());
  cuda_sim::Options options;
  options.devices[0].memory_bytes = smallest * 2;
  Start(options);
  const auto engine = MakeEngine(kAmple, 8);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const Result got = Compute(**engine);
  EXPECT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.blocks, expected.blocks);
  EXPECT_LE(cuda_sim::Read().peak_bytes, smallest * 2);
}

TEST_F(GpuMemory, TooLittleForOneTileFailsWithTheFigure) {
  Start();
  const int64_t smallest = *SmallestBudgetOf(MakeEngine(1).status());
  cuda_sim::Options options;
  options.devices[0].memory_bytes = smallest / 2;
  Start(options);
  const auto engine = MakeEngine(kAmple);
  const absl::Status status = engine.ok() ? Compute(**engine).status : engine.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_FALSE(IsDeviceLost(status));
}

TEST_F(GpuMemory, AnyAllocationMayFailOnce) {
  const Result expected = Expected();
  const int64_t allocations = cuda_sim::Read().allocations;
  ASSERT_GT(allocations, 10);
  for (int64_t k = 1; k <= allocations; ++k) {
    cuda_sim::Options options;
    options.faults.fail_allocation = k;
    Start(options);
    const auto engine = MakeEngine(kAmple);
    if (!engine.ok()) {  // what is needed to compile the problem has nothing to make do without
      EXPECT_EQ(engine.status().code(), absl::StatusCode::kResourceExhausted) << engine.status();
      continue;
    }
    const Result got = Compute(**engine);
    ASSERT_TRUE(got.status.ok()) << "allocation " << k << ": " << got.status;
    EXPECT_EQ(got.blocks, expected.blocks) << "allocation " << k;
  }
}

// Whichever launch breaks the context, no row is delivered that was not computed, and the process is to be replaced.
TEST_F(GpuMemory, AStickyErrorLosesTheDeviceAndDeliversNothingWrong) {
  const Result expected = Expected();
  const int64_t launches = cuda_sim::Read().launches;
  for (int64_t k = 1; k <= launches; k += 1 + launches / 20) {
    cuda_sim::Options options;
    options.faults.sticky_at_launch = k;
    Start(options);
    const auto engine = MakeEngine(kAmple);
    if (!engine.ok()) {
      EXPECT_TRUE(IsDeviceLost(engine.status())) << engine.status();
      continue;
    }
    const RowRange all{0, (*engine)->layout().rows};
    Gather gather((*engine)->layout(), all);
    const absl::Status status = (*engine)->ComputeRows(all, gather, [] { return false; });
    ASSERT_TRUE(IsDeviceLost(status)) << "launch " << k << ": " << status;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("this worker must be replaced"));
    for (size_t b = 0; b < expected.blocks.size(); ++b) {
      for (size_t p = 0; p < expected.blocks[b].size(); ++p) {
        const std::byte got = gather.blocks()[b][p];
        ASSERT_TRUE(got == std::byte{0} || got == expected.blocks[b][p]) << "launch " << k;
      }
    }
  }
}

TEST_F(GpuMemory, NoDriverNoGpuAndSeveralGpusAreSaid) {
  Start({.driver = false});
  EXPECT_THAT(std::string(FindCudaDevice().status().message()), HasSubstr("no NVIDIA driver"));
  EXPECT_EQ(MakeEngine(kAmple).status().code(), absl::StatusCode::kFailedPrecondition);
  Start({.devices = {}});
  EXPECT_THAT(std::string(FindCudaDevice().status().message()), HasSubstr("sees no GPU"));
  Start({.devices = {{}, {}}});
  EXPECT_THAT(std::string(FindCudaDevice().status().message()), HasSubstr("sees 2 GPUs"));
  Start();
  EXPECT_EQ(FindCudaDevice()->name, "Simulated GPU");
}

}  // namespace
}  // namespace jacserve::worker
