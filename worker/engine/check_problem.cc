#include "worker/engine/check_problem.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace jacserve::worker {
namespace {

absl::Status Bind(const NamedTensors& tensors, const char* kind, std::map<std::string, BoundTensor>& bound) {
  for (const auto& [name, tensor] : tensors) {
    ASSIGN_OR_RETURN(const int64_t bytes, ByteCount(tensor.shape, tensor.dtype));
    if (tensor.bytes == nullptr || static_cast<int64_t>(tensor.bytes->size()) != bytes) {
      return absl::InvalidArgumentError(absl::StrCat(kind, " ", name, " of shape ", ShapeText(tensor.shape), " needs ",
                                                     bytes, " bytes and has ",
                                                     tensor.bytes ? tensor.bytes->size() : 0));
    }
    if (!bound.emplace(name, BoundTensor{tensor.dtype, tensor.shape}).second) {
      return absl::InvalidArgumentError(absl::StrCat(kind, " ", name, " was given twice"));
    }
  }
  return absl::OkStatus();
}

// Integers are computed with as numbers of the precision (worker/program/sample_program.h).
template <class Int>
absl::Status CheckIntegers(const std::string& name, const HostTensor& tensor) {
  constexpr Int kLargest = Int{1} << 24;
  const Int* begin = tensor.data<Int>();
  const Int* end = begin + Elements(tensor.shape);
  const Int* found = std::find_if(begin, end, [](Int x) { return x > kLargest || x < -kLargest; });
  if (found == end) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " holds ", *found, "; float32 counts to ", kLargest,
                                                 " without gaps: ask for float64 precision"));
}

absl::Status CheckIntegers(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype == DType::kInt64) RETURN_IF_ERROR(CheckIntegers<int64_t>(name, tensor));
    if (tensor.dtype == DType::kInt32) RETURN_IF_ERROR(CheckIntegers<int32_t>(name, tensor));
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const NamedTensors& tensors, const char* kind) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.shape.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(kind, " ", name, " is a scalar; samples lie along axis 0"));
    }
    if (tensor.shape[0] != tensors[0].second.shape[0]) {
      return absl::InvalidArgumentError(absl::StrCat(kind, " ", name, " has ", tensor.shape[0], " samples and ",
                                                     tensors[0].first, " has ", tensors[0].second.shape[0]));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSecond(const JacobianProblem& problem, const std::map<std::string, BoundTensor>& inputs,
                         const std::map<std::string, BoundTensor>& second) {
  if (!problem.pairwise) {
    return second.empty() ? absl::OkStatus()
                          : absl::InvalidArgumentError("a second batch was given without a pairwise target");
  }
  for (const auto& [name, bound] : inputs) {
    const auto it = second.find(name);
    if (it == second.end()) {
      return absl::InvalidArgumentError(absl::StrCat("a pairwise target needs a second batch of input ", name));
    }
    Shape shape = it->second.shape;
    if (shape.size() == bound.shape.size()) shape[0] = bound.shape[0];
    if (shape != bound.shape || it->second.dtype != bound.dtype) {
      return absl::InvalidArgumentError(absl::StrCat("the second batch of input ", name, " has shape ",
                                                     ShapeText(it->second.shape), ", the first ",
                                                     ShapeText(bound.shape)));
    }
  }
  if (second.size() > inputs.size())
    return absl::InvalidArgumentError("the second batch has inputs that the first lacks");
  if (!std::isfinite(problem.pairwise->sign) || !(problem.pairwise->epsilon >= 0)) {
    return absl::InvalidArgumentError("sign must be finite and epsilon at least 0");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Bindings> CheckProblem(const JacobianProblem& problem) {
  Bindings bindings;
  bindings.output = problem.output;
  RETURN_IF_ERROR(Bind(problem.weights, "weight", bindings.weights));
  RETURN_IF_ERROR(Bind(problem.inputs, "input", bindings.inputs));
  RETURN_IF_ERROR(Bind(problem.shared_inputs, "shared input", bindings.shared_inputs));
  std::map<std::string, BoundTensor> second;
  RETURN_IF_ERROR(Bind(problem.second_inputs, "second input", second));
  if (problem.inputs.empty()) return absl::InvalidArgumentError("no batched input was given");
  RETURN_IF_ERROR(CheckBatch(problem.inputs, "input"));
  RETURN_IF_ERROR(CheckBatch(problem.second_inputs, "second input"));
  RETURN_IF_ERROR(CheckSecond(problem, bindings.inputs, second));
  if (problem.pairwise) bindings.second_batch = problem.second_inputs[0].second.shape[0];
  if (!IsFloat(problem.precision)) return absl::InvalidArgumentError("the precision must be float32 or float64");
  if (problem.values && problem.precision != DType::kFloat32) {
    return absl::InvalidArgumentError("values of 16 bits go with float32 sums, not with float64");
  }
  if (problem.tf32 && (problem.values || problem.precision != DType::kFloat32)) {
    return absl::InvalidArgumentError("TF32 products go with float32 numbers, not with float64 or 16 bits");
  }
  if (problem.precision == DType::kFloat32) {
    for (const NamedTensors* tensors : {&problem.inputs, &problem.second_inputs, &problem.shared_inputs}) {
      RETURN_IF_ERROR(CheckIntegers(*tensors));
    }
  }
  return bindings;
}

}  // namespace jacserve::worker
