#include "tests/worker/ops/compute_jacobian.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/worker/engine/golden_case.h"

namespace jacserve::worker {
namespace {

HostTensor FromDoubles(Shape shape, const std::vector<double>& numbers) {
  auto bytes = std::make_shared<std::vector<std::byte>>(numbers.size() * sizeof(double));
  std::memcpy(bytes->data(), numbers.data(), bytes->size());
  return {DType::kFloat64, std::move(shape), std::move(bytes)};
}

}  // namespace

Jacobian Compute(JacobianProblem problem, BackendKind backend, DType precision, Direction direction) {
  problem.precision = precision;
  // A GPU's libraries alone have nearly as much as the small problems of these tests need elsewhere.
  const int64_t budget = backend == BackendKind::kCuda ? int64_t{1} << 30 : int64_t{64} << 20;
  auto engine = Engine::Create(std::move(problem), {backend, budget, 1, direction});
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

std::vector<double> ValueOf(JacobianProblem problem) {
  problem.precision = DType::kFloat64;
  auto engine = Engine::Create(std::move(problem), {BackendKind::kReference, int64_t{64} << 20, 1});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? ToDoubles(*(*engine)->Value(), DType::kFloat64) : std::vector<double>();
}

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

JacobianProblem Widened(JacobianProblem problem) {
  for (NamedTensors* tensors : {&problem.inputs, &problem.second_inputs, &problem.weights}) {
    for (auto& [name, tensor] : *tensors) {
      if (IsFloat(tensor.dtype)) tensor = FromDoubles(tensor.shape, ToDoubles(tensor));
    }
  }
  return problem;
}

HostTensor Moved(const HostTensor& tensor, const std::vector<double>& direction, double by) {
  std::vector<double> numbers = ToDoubles(tensor);
  for (size_t p = 0; p < numbers.size(); ++p) numbers[p] += by * direction[p];
  return FromDoubles(tensor.shape, numbers);
}

}  // namespace jacserve::worker
