// The 16-bit computation modes: what they round, that they stay near float32, and what they report as lost.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/worker/engine/golden_case.h"

namespace jacserve::worker {
namespace {

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(RoundToFloat16(1.0f), 1.0f);
  EXPECT_EQ(RoundToFloat16(1.0f + 0x1p-11f), 1.0f);                // halfway, to even
  EXPECT_EQ(RoundToFloat16(1.0f + 3 * 0x1p-11f), 1.0f + 0x1p-9f);  // halfway, to even
  EXPECT_EQ(RoundToFloat16(1.0f + 0x1.8p-11f), 1.0f + 0x1p-10f);   // above halfway
  EXPECT_EQ(RoundToFloat16(65519.0f), 65504.0f);                   // the largest
  EXPECT_EQ(RoundToFloat16(-65520.0f), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(RoundToFloat16(0x1p-24f), 0x1p-24f);  // the smallest
  EXPECT_EQ(RoundToFloat16(0x1p-25f), 0.0f);      // halfway to it, to even
  EXPECT_EQ(RoundToFloat16(-0x1.8p-24f), -0x1p-23f);
  EXPECT_TRUE(std::isnan(RoundToFloat16(std::nanf(""))));
  EXPECT_EQ(RoundToBfloat16(1.0f + 0x1p-8f), 1.0f);
  EXPECT_EQ(RoundToBfloat16(1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f);
  EXPECT_TRUE(std::isnan(RoundToBfloat16(std::nanf(""))));
}

struct Mode {
  const char* name;
  HalfFormat format;
  double tolerance;  // of the block's largest value
};

class HalfMode : public testing::TestWithParam<Mode> {};

TEST_P(HalfMode, StaysNearFloat32AndSaysWhatItIs) {
  const JacobianProblem full = LoadGoldenCase("mlp_tanh", false).problem;
  JacobianProblem half = full;
  half.values = GetParam().format;
  const auto expected = *Engine::Create(full, {}), got = *Engine::Create(half, {});
  EXPECT_EQ(got->layout().values, GetParam().format);
  EXPECT_EQ(got->layout().dtype, DType::kFloat32);
  Gather want(expected->layout(), {0, expected->layout().rows}), rows(got->layout(), {0, got->layout().rows});
  ASSERT_TRUE(expected->ComputeRows({0, expected->layout().rows}, want, [] { return false; }).ok());
  ASSERT_TRUE(got->ComputeRows({0, got->layout().rows}, rows, [] { return false; }).ok());
  bool rounded = false;
  for (size_t b = 0; b < got->layout().blocks.size(); ++b) {
    const auto a = ToDoubles(want.block(b), DType::kFloat32), c = ToDoubles(rows.block(b), DType::kFloat32);
    double largest = 0, worst = 0;
    for (size_t p = 0; p < a.size(); ++p) {
      largest = std::max(largest, std::fabs(a[p]));
      worst = std::max(worst, std::fabs(a[p] - c[p]));
      rounded = rounded || a[p] != c[p];
    }
    EXPECT_LE(worst, GetParam().tolerance * largest) << got->layout().blocks[b].name;
  }
  EXPECT_TRUE(rounded);
}

INSTANTIATE_TEST_SUITE_P(Formats, HalfMode,
                         testing::Values(Mode{"float16", HalfFormat::kFloat16, 1e-2},
                                         Mode{"bfloat16", HalfFormat::kBfloat16, 8e-2}),
                         [](const auto& info) { return info.param.name; });

TEST(Half, CountsWhatBecameZeroOrInfinite) {
  JacobianProblem problem = LoadGoldenCase("mlp_tanh", false).problem;
  problem.values = HalfFormat::kFloat16;
  HostTensor& x = problem.inputs[0].second;
  auto bytes = std::make_shared<std::vector<std::byte>>(*x.bytes);
  reinterpret_cast<float*>(bytes->data())[0] = 1e-9f;
  reinterpret_cast<float*>(bytes->data())[1] = 1e9f;
  x.bytes = std::move(bytes);
  const auto engine = *Engine::Create(problem, {});
  EXPECT_GE(engine->effort().loss.underflows, 1);
  EXPECT_GE(engine->effort().loss.overflows, 1);
  problem.values.reset();
  const auto full = *Engine::Create(problem, {});
  EXPECT_EQ(full->effort().loss.underflows + full->effort().loss.overflows, 0);
}

TEST(Half, GoesWithFloat32Only) {
  JacobianProblem problem = LoadGoldenCase("mlp_tanh", false).problem;
  problem.values = HalfFormat::kBfloat16;
  problem.precision = DType::kFloat64;
  EXPECT_EQ(Engine::Create(problem, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace jacserve::worker
