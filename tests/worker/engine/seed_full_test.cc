// The full-size problem on a sample of rows: float64 reference within 1e-10, float32 cpu within 1e-4 of the block.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/worker/engine/golden_case.h"

namespace jacserve::worker {
namespace {

// Worst difference from expected row/R/B, and from norm/B and dot/B, as a part of the block's largest number.
void CompareRow(const GoldenCase& golden, Engine& engine, int64_t row, double tolerance) {
  const JacobianLayout& layout = engine.layout();
  Gather gather(layout, {row, 1});
  const absl::Status status = engine.ComputeRows({row, 1}, gather, [] { return false; });
  ASSERT_TRUE(status.ok()) << status;
  for (size_t b = 0; b < layout.blocks.size(); ++b) {
    const std::string& name = layout.blocks[b].name;
    EXPECT_EQ(layout.blocks[b].connected, name.find("dense2") == std::string::npos) << name;
    if (!layout.blocks[b].connected) continue;
    const std::vector<double> numbers = ToDoubles(gather.block(b), layout.dtype);
    double squares = 0, dot = 0;
    for (size_t k = 0; k < numbers.size(); ++k) {
      squares += numbers[k] * numbers[k];
      dot += numbers[k] * std::sin(0.7 * static_cast<double>(k) + 1);
    }
    const double norm = ToDoubles(golden.expected.at("norm/" + name))[row];
    EXPECT_NEAR(std::sqrt(squares), norm, tolerance * norm) << name << " norm of row " << row;
    EXPECT_NEAR(dot, ToDoubles(golden.expected.at("dot/" + name))[row], tolerance * norm) << name << " dot of " << row;
    const auto whole = golden.expected.find("row/" + std::to_string(row) + "/" + name);
    if (whole == golden.expected.end()) continue;
    const std::vector<double> expected = ToDoubles(whole->second);
    double largest = 0;
    for (double x : expected) largest = std::max(largest, std::fabs(x));
    for (size_t k = 0; k < expected.size(); ++k) {
      ASSERT_NEAR(numbers[k], expected[k], tolerance * largest) << name << " row " << row << " column " << k;
    }
  }
}

TEST(SeedFull, ReferenceInFloat64AgreesTo1e10) {
  GoldenCase golden = LoadGoldenCase("seed_full");
  golden.problem.precision = DType::kFloat64;
  auto engine = Engine::Create(golden.problem, {BackendKind::kReference, int64_t{2} << 30, 2});
  ASSERT_TRUE(engine.ok()) << engine.status();
  for (int64_t row : {int64_t{0}, int64_t{1571}, int64_t{3135}}) CompareRow(golden, **engine, row, 1e-10);
}

TEST(SeedFull, CpuInFloat32AgreesTo1e4) {
  const GoldenCase golden = LoadGoldenCase("seed_full");
  auto engine = Engine::Create(golden.problem, {BackendKind::kCpu, int64_t{512} << 20, 2});
  ASSERT_TRUE(engine.ok()) << engine.status();
  for (int64_t row : {int64_t{0}, int64_t{57}, int64_t{1571}, int64_t{3135}}) CompareRow(golden, **engine, row, 1e-4);
}

}  // namespace
}  // namespace jacserve::worker
