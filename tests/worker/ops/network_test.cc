// What holds for every network, on random ones: rows of one sample do not change with the others, kernels of networks
// without biases do not change a cosine when they grow, and equal batches give symmetric rows.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/worker/ops/compute_jacobian.h"
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

int64_t Between(int64_t low, int64_t high) { return *rc::gen::inRange<int64_t>(low, high + 1); }

// Convolutions or dense layers with an activation between them; with biases or without.
OpCase RandomNetwork(const std::string& activation, bool biases) {
  OpCaseBuilder builder("network");
  const int64_t layers = Between(1, 3);
  int64_t width = Between(2, 4);
  const bool images = Between(0, 1) == 1;
  builder.X(images ? Shape{width, 5, 5} : Shape{width});
  std::string value = "x";
  for (int64_t k = 0; k < layers; ++k) {
    const int64_t next = Between(3, 5);
    const std::string at = std::to_string(k);
    builder.W("w" + at, images ? Shape{next, width, 2, 2} : Shape{width, next});
    std::vector<std::string> in = {value, "w" + at};
    if (biases) {
      builder.W("b" + at, {next});
      in.push_back("b" + at);
    }
    builder.Node(images ? "Conv" : "Gemm", in, "h" + at);
    if (k + 1 < layers) builder.Node(activation, {"h" + at}, "a" + at);
    value = (k + 1 < layers ? "a" : "h") + at;
    width = next;
  }
  builder.Node("Flatten", {value}, "y");
  return builder.Done();
}

// Samples begin .. begin + count.
HostTensor Samples(const HostTensor& tensor, int64_t begin, int64_t count) {
  Shape shape = tensor.shape;
  const auto bytes = static_cast<int64_t>(tensor.bytes->size()) / shape[0];
  shape[0] = count;
  return {tensor.dtype, shape,
          std::make_shared<std::vector<std::byte>>(tensor.bytes->begin() + begin * bytes,
                                                   tensor.bytes->begin() + (begin + count) * bytes)};
}

RC_GTEST_PROP(Network, RowsOfASampleDoNotChangeWithTheOthers, ()) {
  OpCase network = RandomNetwork(*rc::gen::element<std::string>("Relu", "Tanh", "Gelu"), true);
  network.problem.wrt_inputs.clear();
  const BackendKind backend = *rc::gen::element(BackendKind::kReference, BackendKind::kCpu);
  const Jacobian all = Compute(network.problem, backend, DType::kFloat64);
  const int64_t sample = Between(0, 2);
  JacobianProblem alone = network.problem;
  alone.inputs[0].second = Samples(alone.inputs[0].second, sample, 1);
  const Jacobian one = Compute(alone, backend, DType::kFloat64);
  for (size_t b = 0; b < one.blocks.size(); ++b) {
    const size_t n = one.blocks[b].size();
    for (size_t p = 0; p < n; ++p) {
      const double expected = all.blocks[b][static_cast<size_t>(sample) * n + p];
      RC_ASSERT(std::fabs(one.blocks[b][p] - expected) <= 1e-12 * std::max(1.0, std::fabs(expected)));
    }
  }
}

RC_GTEST_PROP(Network, AKernelThatGrowsDoesNotTurnAnEmbedding, ()) {
  OpCase network = RandomNetwork(*rc::gen::element<std::string>("Relu", "LeakyRelu", "Abs"), false);
  JacobianProblem& problem = network.problem;
  problem.wrt_inputs.clear();
  problem.pairwise = PairwiseTarget{.similarity = Similarity::kCosine, .epsilon = 1e-30};
  problem.second_inputs = {{"x", Samples(problem.inputs[0].second, 1, 2)}};
  const Jacobian jacobian = Compute(problem, BackendKind::kCpu, DType::kFloat64);
  JacobianProblem wide = Widened(problem);
  for (size_t b = 0; b < jacobian.blocks.size(); ++b) {
    const HostTensor& kernel = *Tensor(wide, jacobian.layout.blocks[b].name);
    const auto columns = static_cast<size_t>(Elements(kernel.shape));
    for (int64_t row = 0; row < jacobian.layout.rows; ++row) {
      double along = 0, size = 0;  // d/ds of the cosine under kernel * (1 + s)
      for (size_t p = 0; p < columns; ++p) {
        const double product = jacobian.blocks[b][row * columns + p] * kernel.data<double>()[p];
        along += product;
        size += std::fabs(product);
      }
      RC_ASSERT(std::fabs(along) <= 1e-10 * std::max(size, 1e-3));
    }
  }
}

RC_GTEST_PROP(Network, EqualBatchesGiveSymmetricRows, ()) {
  OpCase network = RandomNetwork("Tanh", true);
  JacobianProblem& problem = network.problem;
  problem.wrt_inputs.clear();
  problem.pairwise =
      PairwiseTarget{.similarity = *rc::gen::element(Similarity::kCosine, Similarity::kDot, Similarity::kSqdist)};
  problem.second_inputs = problem.inputs;
  const Jacobian jacobian = Compute(problem, BackendKind::kCpu, DType::kFloat64);
  for (const std::vector<double>& block : jacobian.blocks) {
    const size_t columns = block.size() / 9;
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < i; ++j) {
        for (size_t p = 0; p < columns; ++p) {
          const double a = block[(3 * i + j) * columns + p], c = block[(3 * j + i) * columns + p];
          RC_ASSERT(std::fabs(a - c) <= 1e-12 * std::max(1.0, std::fabs(a)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace jacserve::worker
