// Every golden case against the frameworks' own float64 Jacobians, over backends and types: those of the host, or with
// JACSERVE_CUDA_SIM the GPU's on the simulated GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/worker/engine/golden_case.h"

namespace jacserve::worker {
namespace {

struct Setup {
  const char* name;
  BackendKind backend;
  DType precision;
  double tolerance;  // of the block's largest absolute value
};

#ifdef JACSERVE_CUDA_SIM
constexpr Setup kSetups[] = {{"cuda_float32", BackendKind::kCuda, DType::kFloat32, 1e-4},
                             {"cuda_float64", BackendKind::kCuda, DType::kFloat64, 1e-9}};
#else
constexpr Setup kSetups[] = {{"reference_float64", BackendKind::kReference, DType::kFloat64, 1e-9},
                             {"reference_float32", BackendKind::kReference, DType::kFloat32, 1e-4},
                             {"cpu_float32", BackendKind::kCpu, DType::kFloat32, 1e-4},
                             {"cpu_float64", BackendKind::kCpu, DType::kFloat64, 1e-9}};
#endif

constexpr const char* kCases[] = {"batchnorm_eval",
                                  "cnn_maxpool_logsoftmax",
                                  "cnn_maxpool_ties",
                                  "coupled_batch",
                                  "grouped_dilated_avgpool",
                                  "keras_dense_zero_bias",
                                  "layernorm_gelu",
                                  "mlp_tanh",
                                  "pairwise_dot",
                                  "pairwise_keras_cosine",
                                  "pairwise_sqdist",
                                  "pairwise_zero_embedding",
                                  "plain_onnx_initializers",
                                  "seed_architecture_narrow",
                                  "seed_policy_head",
                                  "shared_layer_residual"};

class Golden : public testing::TestWithParam<std::tuple<const char*, Setup>> {};

TEST_P(Golden, JacobianIsTheFrameworks) {
  const auto& [name, setup] = GetParam();
  GoldenCase golden = LoadGoldenCase(name);
  golden.problem.precision = setup.precision;
  auto engine = Engine::Create(golden.problem, {setup.backend, int64_t{256} << 20, 2});
  ASSERT_TRUE(engine.ok()) << engine.status();
  const JacobianLayout& layout = (*engine)->layout();
  EXPECT_EQ(layout.target_shape, golden.expected.at("value").shape);

  const auto value = (*engine)->Value();
  ASSERT_TRUE(value.ok()) << value.status();
  const std::vector<double> got = ToDoubles(*value, layout.dtype), want = ToDoubles(golden.expected.at("value"));
  ASSERT_EQ(got.size(), want.size());
  for (size_t p = 0; p < want.size(); ++p) EXPECT_NEAR(got[p], want[p], std::max(setup.tolerance, 1e-5)) << p;

  Gather rows(layout, {0, layout.rows});
  const absl::Status status = (*engine)->ComputeRows({0, layout.rows}, rows, [] { return false; });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(rows.rows_done(), layout.rows);

  size_t compared = 0;
  for (size_t b = 0; b < layout.blocks.size(); ++b) {
    const BlockInfo& block = layout.blocks[b];
    const bool unconnected =
        std::find(golden.unconnected.begin(), golden.unconnected.end(), block.name) != golden.unconnected.end();
    EXPECT_EQ(block.connected, !unconnected) << block.name;
    if (unconnected) continue;
    ASSERT_TRUE(golden.expected.contains(block.name)) << block.name;
    const HostTensor& expected = golden.expected.at(block.name);
    Shape shape = layout.target_shape;
    shape.insert(shape.end(), block.shape.begin(), block.shape.end());
    EXPECT_EQ(shape, expected.shape) << block.name;
    const std::vector<double> jacobian = ToDoubles(rows.block(b), layout.dtype), reference = ToDoubles(expected);
    ASSERT_EQ(jacobian.size(), reference.size());
    double largest = 0, worst = 0;
    for (size_t p = 0; p < reference.size(); ++p) {
      largest = std::max(largest, std::fabs(reference[p]));
      const double error = std::fabs(jacobian[p] - reference[p]);
      worst = error > worst || std::isnan(error) ? error : worst;
    }
    EXPECT_TRUE(worst <= std::max(setup.tolerance * largest, 1e-12))
        << block.name << ": " << worst << " of " << largest;
    ++compared;
  }
  EXPECT_EQ(compared + golden.unconnected.size(), layout.blocks.size());
  EXPECT_EQ(compared, golden.expected.size() - 1);
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden, testing::Combine(testing::ValuesIn(kCases), testing::ValuesIn(kSetups)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace jacserve::worker
