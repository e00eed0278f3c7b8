// What tests of docs/conventions.md compute with: a problem with given numbers, on every backend, in every type and
// direction.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/ops/compute_jacobian.h"
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {

using Numbers = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

#ifdef JACSERVE_CUDA_SIM
constexpr BackendKind kBackends[] = {BackendKind::kCuda};
#else
constexpr BackendKind kBackends[] = {BackendKind::kReference, BackendKind::kCpu};
#endif

MATCHER(IsSame, "") {
  const auto& [got, expected] = arg;
  return std::isnan(expected) ? std::isnan(got)
                              : got == expected || std::fabs(got - expected) <= 1e-6 * std::fabs(expected);
}
inline auto Same(const Numbers& expected) { return testing::Pointwise(IsSame(), expected); }

inline JacobianProblem With(const OpCase& op, const std::vector<std::pair<std::string, Numbers>>& tensors) {
  JacobianProblem problem = op.problem;
  for (const auto& [name, numbers] : tensors) {
    HostTensor& tensor = *Tensor(problem, name);
    const std::vector<float> narrow(numbers.begin(), numbers.end());
    auto bytes = std::make_shared<std::vector<std::byte>>(narrow.size() * sizeof(float));
    if (!narrow.empty()) std::memcpy(bytes->data(), narrow.data(), bytes->size());
    EXPECT_EQ(static_cast<size_t>(Elements(tensor.shape)), narrow.size());
    tensor.bytes = std::move(bytes);
  }
  return problem;
}

// Every backend, type and direction. Pushed forward, only inputs are differentiated by.
template <class Check>
void Everywhere(const JacobianProblem& problem, Check check) {
  for (const BackendKind backend : kBackends) {
    for (const DType precision : {DType::kFloat32, DType::kFloat64}) {
      check(Compute(problem, backend, precision, Direction::kPullback));
      if (!problem.wrt_parameters.empty()) continue;
      check(Compute(problem, backend, precision, Direction::kPushforward));
    }
  }
}

}  // namespace jacserve::worker
