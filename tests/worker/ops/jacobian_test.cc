// Every operator's pullback, with respect to all its inputs: float64 reference against central differences of its own
// forward, and the other backends and types against the float64 reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "tests/worker/engine/golden_case.h"
#include "tests/worker/ops/op_cases.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

struct Jacobian {
  JacobianLayout layout;
  std::vector<double> value;
  std::vector<std::vector<double>> blocks;
};

Jacobian Compute(JacobianProblem problem, BackendKind backend, DType precision,
                 Direction direction = Direction::kByCost) {
  problem.precision = precision;
  auto engine = Engine::Create(std::move(problem), {backend, int64_t{64} << 20, 1, direction});
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (!engine.ok()) return {};
  Jacobian result{(*engine)->layout()};
  result.value = ToDoubles(*(*engine)->Value(), precision);
  Gather gather(result.layout, {0, result.layout.rows});
  const absl::Status status = (*engine)->ComputeRows({0, result.layout.rows}, gather, [] { return false; });
  EXPECT_TRUE(status.ok()) << status;
  for (size_t b = 0; b < result.layout.blocks.size(); ++b) {
    result.blocks.push_back(ToDoubles(gather.block(b), precision));
  }
  return result;
}

// The tensor with this name, as float64, to be moved a little.
HostTensor* Tensor(JacobianProblem& problem, const std::string& name) {
  for (auto& [key, tensor] : problem.second_inputs) {
    if ("second." + key == name) return &tensor;
  }
  for (NamedTensors* tensors : {&problem.inputs, &problem.weights}) {
    for (auto& [key, tensor] : *tensors) {
      if (key == name) return &tensor;
    }
  }
  return nullptr;
}

HostTensor Moved(const HostTensor& tensor, size_t element, double by) {
  std::vector<double> numbers = ToDoubles(tensor);
  numbers[element] += by;
  auto bytes = std::make_shared<std::vector<std::byte>>(numbers.size() * sizeof(double));
  std::memcpy(bytes->data(), numbers.data(), bytes->size());
  return {DType::kFloat64, tensor.shape, std::move(bytes)};
}

std::vector<double> ValueOf(JacobianProblem problem) {
  problem.precision = DType::kFloat64;
  auto engine = Engine::Create(std::move(problem), {BackendKind::kReference, int64_t{64} << 20, 1});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return ToDoubles(*(*engine)->Value(), DType::kFloat64);
}

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
      JacobianProblem up = op.problem, down = op.problem;
      HostTensor *above = Tensor(up, block.name), *below = Tensor(down, block.name);
      *above = Moved(*above, column, kStep);
      *below = Moved(*below, column, -kStep);
      for (JacobianProblem* problem : {&up, &down}) {  // both batches of an input have one type
        for (NamedTensors* batch : {&problem->inputs, &problem->second_inputs}) {
          for (auto& [name, tensor] : *batch) tensor = IsFloat(tensor.dtype) ? Moved(tensor, 0, 0) : tensor;
        }
      }
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
