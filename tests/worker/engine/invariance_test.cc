// A row's bits do not depend on how rows were sharded, batched or ordered, on threads, or on the memory budget.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "common/budget_status.h"
#include "tests/worker/engine/golden_case.h"

namespace jacserve::worker {
namespace {

// A golden network on larger batches, so that its rows fill several tiles and its samples several chunks.
JacobianProblem Enlarged(const std::string& name, int64_t first, int64_t second) {
  JacobianProblem problem = LoadGoldenCase(name, false).problem;
  std::mt19937 generator(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto enlarge = [&](NamedTensors& tensors, int64_t samples) {
    for (auto& [key, tensor] : tensors) {
      tensor.shape[0] = samples;
      auto bytes = std::make_shared<std::vector<std::byte>>(Elements(tensor.shape) * sizeof(float));
      auto* numbers = reinterpret_cast<float*>(bytes->data());
      std::generate_n(numbers, Elements(tensor.shape), [&] { return uniform(generator); });
      tensor.bytes = std::move(bytes);
    }
  };
  enlarge(problem.inputs, first);
  enlarge(problem.second_inputs, second);
  return problem;
}

struct Setup {
  const char* name;
  BackendKind backend;
  DType precision;
};

struct Network {
  const char* name;
  int64_t first, second;
};

class Invariance : public testing::TestWithParam<std::tuple<Network, Setup>> {
 protected:
  void SetUp() override {
    const auto& [network, setup] = GetParam();
    problem_ = Enlarged(network.name, network.first, network.second);
    problem_.precision = setup.precision;
    options_.backend = setup.backend;
  }

  std::unique_ptr<Engine> MakeEngine(int threads, int64_t budget) const {
    EngineOptions options = options_;
    options.threads = threads;
    options.memory_budget_bytes = budget;
    auto engine = Engine::Create(problem_, options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  // All blocks of the whole Jacobian, computed in these ranges one after the other.
  static std::vector<std::vector<std::byte>> Compute(Engine& engine, const std::vector<RowRange>& ranges) {
    Gather gather(engine.layout(), {0, engine.layout().rows});
    for (const RowRange& range : ranges) {
      const absl::Status status = engine.ComputeRows(range, gather, [] { return false; });
      EXPECT_TRUE(status.ok()) << status;
    }
    EXPECT_EQ(gather.rows_done(), engine.layout().rows);
    return gather.blocks();
  }

  static std::vector<RowRange> Cut(int64_t rows, int64_t step, bool reversed) {
    std::vector<RowRange> ranges;
    for (int64_t begin = 0; begin < rows; begin += step) ranges.push_back({begin, std::min(step, rows - begin)});
    if (reversed) std::reverse(ranges.begin(), ranges.end());
    return ranges;
  }

  // The smallest budget that the error itself names.
  int64_t SmallestBudget() const {
    EngineOptions options = options_;
    options.memory_budget_bytes = 1;
    const absl::Status status = Engine::Create(problem_, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    return SmallestBudgetOf(status).value_or(0);
  }

  static constexpr int64_t kAmple = int64_t{1} << 30;
  JacobianProblem problem_;
  EngineOptions options_;
};

TEST_P(Invariance, BitsDoNotDependOnShardsOrderThreadsOrBudget) {
  const auto whole = MakeEngine(1, kAmple);
  const int64_t rows = whole->layout().rows;
  ASSERT_GT(rows, 2 * whole->layout().row_tile) << "several tiles are wanted";
  const auto expected = Compute(*whole, {{0, rows}});
  EXPECT_EQ(Compute(*whole, Cut(rows, 7, false)), expected) << "shards that cut tiles";
  EXPECT_EQ(Compute(*whole, Cut(rows, 53, true)), expected) << "last shard first";
  EXPECT_EQ(Compute(*MakeEngine(3, kAmple), {{0, rows}}), expected) << "three threads";
  const auto tight = MakeEngine(1, SmallestBudget());
  EXPECT_EQ(Compute(*tight, Cut(rows, 41, false)), expected) << "the smallest budget";
  EXPECT_EQ(*tight->Value(), *whole->Value()) << "the target's value";
}

TEST_P(Invariance, OneByteLessThanTheSmallestBudgetIsRefusedWithTheFigure) {
  EngineOptions options = options_;
  options.memory_budget_bytes = SmallestBudget() - 1;
  const absl::Status status = Engine::Create(problem_, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

#ifdef JACSERVE_CUDA_SIM
constexpr Setup kSetups[] = {{"cuda", BackendKind::kCuda, DType::kFloat32}};
constexpr int64_t kSamples = 2;  // times as many: its tiles are larger
#else
constexpr Setup kSetups[] = {{"cpu", BackendKind::kCpu, DType::kFloat32},
                             {"reference64", BackendKind::kReference, DType::kFloat64}};
constexpr int64_t kSamples = 1;
#endif

INSTANTIATE_TEST_SUITE_P(Networks, Invariance,
                         testing::Combine(testing::Values(Network{"pairwise_keras_cosine", 37, 29},
                                                          Network{"cnn_maxpool_logsoftmax", 171 * kSamples, 0},
                                                          Network{"shared_layer_residual", 301 * kSamples, 0}),
                                          testing::ValuesIn(kSetups)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace jacserve::worker
