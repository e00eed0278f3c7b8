// Reduced precision on the simulated GPU: what each one changes, how far it stays from float32, and what the layout
// says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/cuda_sim/cuda_sim.h"
#include "tests/worker/engine/golden_case.h"

namespace jacserve::worker {
namespace {

struct Computed {
  JacobianLayout layout;
  std::vector<std::vector<double>> blocks;
  int64_t tf32_products = 0;
};

Computed Compute(const JacobianProblem& problem) {
  cuda_sim::Reset({});
  const auto engine = Engine::Create(problem, {BackendKind::kCuda, int64_t{256} << 20, 2});
  EXPECT_TRUE(engine.ok()) << engine.status();
  Computed result{(*engine)->layout()};
  const RowRange all{0, result.layout.rows};
  Gather gather(result.layout, all);
  const absl::Status status = (*engine)->ComputeRows(all, gather, [] { return false; });
  EXPECT_TRUE(status.ok()) << status;
  for (const auto& block : gather.blocks()) result.blocks.push_back(ToDoubles(block, result.layout.dtype));
  result.tf32_products = cuda_sim::Read().tf32_products;
  return result;
}

struct Mode {
  const char* name;
  const char* golden;
  bool tf32;
  std::optional<HalfFormat> values;
  double tolerance;  // of the block's largest number
};

class Precision : public testing::TestWithParam<Mode> {};

TEST_P(Precision, DiffersFromFloat32AndStaysNearIt) {
  JacobianProblem problem = LoadGoldenCase(GetParam().golden, false).problem;
  const Computed full = Compute(problem);
  EXPECT_FALSE(full.layout.tf32);
  EXPECT_EQ(full.tf32_products, 0) << "float32 is float32";
  problem.tf32 = GetParam().tf32;
  problem.values = GetParam().values;
  const Computed reduced = Compute(problem);
  EXPECT_EQ(reduced.layout.tf32, GetParam().tf32);
  EXPECT_EQ(reduced.layout.values, GetParam().values);
  EXPECT_EQ(reduced.layout.dtype, DType::kFloat32);
  EXPECT_EQ(reduced.tf32_products > 0, GetParam().tf32);
  bool differs = false;
  for (size_t b = 0; b < full.blocks.size(); ++b) {
    double largest = 0, worst = 0;
    for (size_t p = 0; p < full.blocks[b].size(); ++p) {
      largest = std::max(largest, std::fabs(full.blocks[b][p]));
      worst = std::max(worst, std::fabs(full.blocks[b][p] - reduced.blocks[b][p]));
    }
    differs = differs || worst > 0;
    EXPECT_LE(worst, GetParam().tolerance * largest) << full.layout.blocks[b].name;
  }
  EXPECT_TRUE(differs);
}

INSTANTIATE_TEST_SUITE_P(Modes, Precision,
                         testing::Values(Mode{"Tf32", "pairwise_keras_cosine", true, std::nullopt, 5e-3},
                                         Mode{"Float16", "mlp_tanh", false, HalfFormat::kFloat16, 1e-2},
                                         Mode{"Bfloat16", "mlp_tanh", false, HalfFormat::kBfloat16, 8e-2}),
                         [](const auto& info) { return info.param.name; });

TEST(Tf32, OfAGraphThatMixesSamplesIsFloat32AndSaysSo) {
  JacobianProblem problem = LoadGoldenCase("coupled_batch", false).problem;
  const Computed full = Compute(problem);
  problem.tf32 = true;
  const Computed asked = Compute(problem);
  EXPECT_FALSE(asked.layout.tf32);
  EXPECT_EQ(asked.tf32_products, 0);
  EXPECT_EQ(asked.blocks, full.blocks);
}

}  // namespace
}  // namespace jacserve::worker
