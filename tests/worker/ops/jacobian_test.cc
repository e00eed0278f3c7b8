// Every operator's pullback, with respect to all its inputs: float64 reference against central differences of its own
// forward, and the other backends and types against the float64 reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/worker/ops/compute_jacobian.h"
#include "tests/worker/ops/op_cases.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class OpJacobian : public testing::TestWithParam<OpCase> {};

TEST_P(OpJacobian, EqualsCentralDifferences) {
  const OpCase& op = GetParam();
  const Jacobian jacobian = Compute(op.problem, BackendKind::kReference, DType::kFloat64);
  ASSERT_FALSE(jacobian.blocks.empty());
  constexpr double kStep = 1e-5;
  for (size_t b = 0; b < jacobian.blocks.size(); ++b) {
    const BlockInfo& block = jacobian.layout.blocks[b];
    ASSERT_TRUE(block.connected) << block.name;
    const auto columns = static_cast<size_t>(Elements(block.shape));
    for (size_t column = 0; column < columns; ++column) {
      std::vector<double> direction(columns, 0.0);
      direction[column] = 1.0;
      JacobianProblem up = Widened(op.problem), down = up;
      *Tensor(up, block.name) = Moved(*Tensor(up, block.name), direction, kStep);
      *Tensor(down, block.name) = Moved(*Tensor(down, block.name), direction, -kStep);
      const std::vector<double> high = ValueOf(std::move(up)), low = ValueOf(std::move(down));
      for (size_t row = 0; row < high.size(); ++row) {
        const double difference = (high[row] - low[row]) / (2 * kStep);
        ASSERT_NEAR(jacobian.blocks[b][row * columns + column], difference, 2e-8 * std::max(1.0, std::fabs(difference)))
            << block.name << " row " << row << " column " << column;
      }
    }
  }
}

TEST_P(OpJacobian, IsTheSameOnEveryBackend) {
  const Jacobian expected = Compute(GetParam().problem, BackendKind::kReference, DType::kFloat64);
  for (const auto backend : {BackendKind::kReference, BackendKind::kCpu}) {
    const Jacobian got = Compute(GetParam().problem, backend, DType::kFloat32);
    ASSERT_EQ(got.blocks.size(), expected.blocks.size());
    for (size_t p = 0; p < expected.value.size(); ++p) EXPECT_NEAR(got.value[p], expected.value[p], 1e-5);
    for (size_t b = 0; b < expected.blocks.size(); ++b) {
      ASSERT_EQ(got.blocks[b].size(), expected.blocks[b].size());
      for (size_t p = 0; p < expected.blocks[b].size(); ++p) {
        EXPECT_NEAR(got.blocks[b][p], expected.blocks[b][p], 2e-5) << expected.layout.blocks[b].name << " " << p;
      }
    }
  }
}

// Both directions make the same linear map.
TEST_P(OpJacobian, IsTheSamePushedForward) {
  JacobianProblem problem = GetParam().problem;
  if (problem.pairwise || problem.wrt_inputs.empty()) return;  // pulled back whatever the cost
  problem.wrt_parameters.clear();
  const EngineOptions options{.memory_budget_bytes = int64_t{64} << 20, .direction = Direction::kPushforward};
  if (const absl::Status status = Engine::Create(problem, options).status(); absl::IsUnimplemented(status)) {
    EXPECT_THAT(std::string(status.message()), testing::AnyOf(testing::HasSubstr("not the output's first axis"),
                                                              testing::HasSubstr("(LayerNormalization) has no")));
    return;
  }
  const Jacobian expected = Compute(problem, BackendKind::kReference, DType::kFloat64, Direction::kPullback);
  for (const auto backend : {BackendKind::kReference, BackendKind::kCpu}) {
    const Jacobian got = Compute(problem, backend, DType::kFloat64, Direction::kPushforward);
    ASSERT_EQ(got.blocks.size(), expected.blocks.size());
    for (size_t b = 0; b < expected.blocks.size(); ++b) {
      for (size_t p = 0; p < expected.blocks[b].size(); ++p) {
        EXPECT_NEAR(got.blocks[b][p], expected.blocks[b][p], 1e-12) << expected.layout.blocks[b].name << " " << p;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, OpJacobian, testing::ValuesIn(AllOpCases()),
                         [](const auto& info) { return info.param.name; });

TEST(OpTable, EveryOperatorHasACase) {
  std::set<std::string> tested = {"Constant"};  // read in program tests: it has no input to differentiate by
  for (const OpCase& op : AllOpCases()) {
    for (const GraphNode& node : op.graph->nodes) tested.insert(node.op_type);
  }
  for (const OpEntry& entry : OpTable()) EXPECT_TRUE(tested.contains(std::string(entry.op_type))) << entry.op_type;
}

}  // namespace
}  // namespace jacserve::worker
