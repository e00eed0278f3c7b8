// Every operator on the simulated GPU, pulled back and pushed forward, against the float64 reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/worker/ops/compute_jacobian.h"
#include "tests/worker/ops/op_cases.h"

namespace jacserve::worker {
namespace {

class OpOnGpu : public testing::TestWithParam<OpCase> {
 protected:
  static void ExpectClose(const Jacobian& got, const Jacobian& expected, double tolerance) {
    ASSERT_EQ(got.value.size(), expected.value.size());
    for (size_t p = 0; p < expected.value.size(); ++p) EXPECT_NEAR(got.value[p], expected.value[p], tolerance) << p;
    ASSERT_EQ(got.blocks.size(), expected.blocks.size());
    for (size_t b = 0; b < expected.blocks.size(); ++b) {
      ASSERT_EQ(got.blocks[b].size(), expected.blocks[b].size());
      for (size_t p = 0; p < expected.blocks[b].size(); ++p) {
        EXPECT_NEAR(got.blocks[b][p], expected.blocks[b][p], tolerance) << expected.layout.blocks[b].name << " " << p;
      }
    }
  }
};

TEST_P(OpOnGpu, IsTheReference) {
  const Jacobian expected = Compute(GetParam().problem, BackendKind::kReference, DType::kFloat64);
  ExpectClose(Compute(GetParam().problem, BackendKind::kCuda, DType::kFloat64), expected, 1e-11);
  ExpectClose(Compute(GetParam().problem, BackendKind::kCuda, DType::kFloat32), expected, 2e-5);
}

TEST_P(OpOnGpu, IsTheReferencePushedForward) {
  JacobianProblem problem = GetParam().problem;
  if (problem.pairwise || problem.wrt_inputs.empty()) return;  // pulled back whatever the cost
  problem.wrt_parameters.clear();
  const EngineOptions options{.direction = Direction::kPushforward};
  if (absl::IsUnimplemented(Engine::Create(problem, options).status())) return;  // as op_jacobian_test has it
  const Jacobian expected = Compute(problem, BackendKind::kReference, DType::kFloat64, Direction::kPullback);
  ExpectClose(Compute(problem, BackendKind::kCuda, DType::kFloat64, Direction::kPushforward), expected, 1e-11);
}

INSTANTIATE_TEST_SUITE_P(Operators, OpOnGpu, testing::ValuesIn(AllOpCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace jacserve::worker
