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

INSTANTIATE_TEST_SUITE_P(Ops, BatchAxisTest, testing::ValuesIn(AllOpCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace jacserve::worker
