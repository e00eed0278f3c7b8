// Which graphs keep their samples apart.
#include <gtest/gtest.h>

#include "tests/worker/ops/op_cases.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {
namespace {

class BatchAxisTest : public testing::TestWithParam<OpCase> {};

TEST_P(BatchAxisTest, OnlyCasesThatMixSamplesAreCoupled) {
  const OpCase& op = GetParam();
  Bindings bindings;
  for (const auto& [name, tensor] : op.problem.weights) bindings.weights[name] = {tensor.dtype, tensor.shape};
  for (const auto& [name, tensor] : op.problem.inputs) bindings.inputs[name] = {tensor.dtype, tensor.shape};
  const auto program = CompileSampleProgram(*op.graph, bindings);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->coupled, op.mixes_samples) << program->coupling;
  EXPECT_EQ(program->coupling.empty(), !program->coupled);
}

// Whatever the number of samples coincides with, and for two batches of different sizes.
TEST_P(BatchAxisTest, SamplesAreApartInBatchesOfAnySize) {
  const OpCase& op = GetParam();
  if (op.mixes_samples) return;
  for (int64_t samples = 1; samples <= 8; ++samples) {
    Bindings bindings;
    for (const auto& [name, tensor] : op.problem.weights) bindings.weights[name] = {tensor.dtype, tensor.shape};
    for (const auto& [name, tensor] : op.problem.inputs) {
      bindings.inputs[name] = {tensor.dtype, tensor.shape};
      bindings.inputs[name].shape[0] = samples;
    }
    for (const int64_t second : {samples, int64_t{3}}) {
      bindings.second_batch = second;
      const auto program = CompileSampleProgram(*op.graph, bindings);
      ASSERT_TRUE(program.ok()) << program.status();
      EXPECT_FALSE(program->coupled) << samples << " and " << second << " samples: " << program->coupling;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, BatchAxisTest, testing::ValuesIn(AllOpCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace jacserve::worker
