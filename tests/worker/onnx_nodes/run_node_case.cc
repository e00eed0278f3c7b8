#include "tests/worker/onnx_nodes/run_node_case.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "tests/worker/engine/golden_case.h"
#include "worker/backend/cpu/cpu_backend.h"
#include "worker/engine/shared_values.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {
namespace {

struct Value {
  Shape shape;
  std::vector<double> numbers;
};

absl::StatusOr<Value> Evaluate(const Graph& graph, const NamedTensors& inputs, const std::string& output,
                               const Backend& backend) {
  Bindings bindings{.output = output};
  for (const auto& [name, tensor] : inputs) bindings.shared_inputs[name] = {tensor.dtype, tensor.shape};
  ASSIGN_OR_RETURN(SampleProgram program, CompileSharedProgram(graph, bindings));
  PullbackPlan plan;
  plan.keep_saved.assign(program.nodes.size(), false);
  ASSIGN_OR_RETURN(Scratch scratch, Scratch::Make(backend.memory(), SharedValues::ScratchBytes(program, backend)));
  const JacobianProblem problem{.shared_inputs = inputs};
  SharedValues shared;
  RETURN_IF_ERROR(shared.Compute(program, plan, problem, backend, ValueRounding(backend, std::nullopt), scratch));
  const ProgramValue& value = program.values[program.output];
  const void* data = shared.Value(value.root).data;
  Value result{value.shape};
  for (int64_t p = 0; p < value.elements; ++p) {
    result.numbers.push_back(backend.dtype() == DType::kFloat32 ? static_cast<const float*>(data)[p]
                                                                : static_cast<const double*>(data)[p]);
  }
  return result;
}

std::vector<double> Numbers(const HostTensor& tensor) {
  if (IsFloat(tensor.dtype)) return ToDoubles(tensor);
  std::vector<double> numbers;
  for (int64_t p = 0; p < Elements(tensor.shape); ++p) {
    numbers.push_back(tensor.dtype == DType::kInt64   ? static_cast<double>(tensor.data<int64_t>()[p])
                      : tensor.dtype == DType::kInt32 ? static_cast<double>(tensor.data<int32_t>()[p])
                                                      : static_cast<double>(tensor.data<bool>()[p]));
  }
  return numbers;
}

bool Close(double got, double expected) {
  if (std::isnan(expected) || std::isinf(expected)) {
    return std::isnan(expected) ? std::isnan(got) : got == expected;
  }
  return std::fabs(got - expected) <= 1e-3 * std::fabs(expected) + 1e-5;  // ONNX's own bounds
}

absl::Status Compare(const Value& got, const HostTensor& expected, const std::string& where) {
  if (got.shape != expected.shape) {
    return absl::DataLossError(
        absl::StrCat(where, ": shape ", ShapeText(got.shape), ", expected ", ShapeText(expected.shape)));
  }
  const std::vector<double> numbers = Numbers(expected);
  for (size_t p = 0; p < numbers.size(); ++p) {
    if (!Close(got.numbers[p], numbers[p])) {
      return absl::DataLossError(absl::StrCat(where, "[", p, "] = ", got.numbers[p], ", expected ", numbers[p]));
    }
  }
  return absl::OkStatus();
}

absl::Status RunWith(const Graph& graph, const NamedTensors& inputs, const NamedTensors& outputs) {
  for (const DType precision : {DType::kFloat64, DType::kFloat32}) {
    for (const bool cpu : {false, true}) {
      const auto backend = cpu ? MakeCpuBackend(precision) : MakeReferenceBackend(precision);
      ASSIGN_OR_RETURN(const std::shared_ptr<void> entered, backend->EnterThread());
      for (const auto& [name, expected] : outputs) {
        ASSIGN_OR_RETURN(const Value got, Evaluate(graph, inputs, name, *backend));
        RETURN_IF_ERROR(
            Compare(got, expected,
                    absl::StrCat(name, " on ", std::string(backend->name()), " in ", std::string(NameOf(precision)))));
      }
    }
  }
  return absl::OkStatus();
}

// The graph with some inputs written into it; `numbers` receives the others.
Graph WithKnown(const NodeCase& node, const std::function<bool(size_t)>& is_known, NamedTensors& numbers) {
  Graph known = *node.graph;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const auto& [name, tensor] = node.inputs[i];
    if (!is_known(i)) {
      numbers.emplace_back(name, tensor);
      continue;
    }
    known.initializers[name] = tensor;
    std::erase_if(known.inputs, [&, n = name](const GraphValue& value) { return value.name == n; });
  }
  return known;
}

}  // namespace

absl::Status RunNodeCase(const NodeCase& node) {
  // Exporters write shapes and axes into the graph, and scales too.
  NamedTensors numbers, first;
  const Graph known = WithKnown(
      node, [&](size_t i) { return !IsFloat(node.inputs[i].second.dtype); }, numbers);
  absl::Status status = RunWith(known, numbers, node.outputs);
  if (absl::IsUnimplemented(status)) {
    for (size_t known_from : {1, 0}) {
      if (!absl::IsUnimplemented(status)) break;
      first.clear();
      const Graph more_known = WithKnown(
          node, [&](size_t i) { return i >= known_from; }, first);
      const absl::Status again = RunWith(more_known, first, node.outputs);
      if (!absl::IsUnimplemented(again)) status = again;
    }
  }
  if (!status.ok() || numbers.size() == node.inputs.size()) return status;
  const absl::Status at_run_time = RunWith(*node.graph, node.inputs, node.outputs);
  return absl::IsUnimplemented(at_run_time) ? absl::OkStatus() : at_run_time;
}

}  // namespace jacserve::worker
