#include "worker/engine/integer_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "worker/ops/attributes.h"

namespace jacserve::worker {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

// Bounds on |x| for every element x of a value.
class Bounds {
 public:
  Bounds(const SampleProgram& program, const JacobianProblem& problem)
      : program_(program), bounds_(program.values.size(), kUnknown) {
    for (size_t v = 0; v < bounds_.size(); ++v) {
      const ProgramValue& value = program.values[v];
      if (value.dtype == DType::kBool) bounds_[v] = 1;
      if (value.constant != nullptr) bounds_[v] = Largest(*value.constant);
    }
    for (const ProgramSource& source : program.sources) {
      if (source.value >= 0 && !IsFloat(source.dtype)) bounds_[source.value] = Given(source, problem);
    }
  }

  double operator[](int value) const { return value < 0 ? 0 : bounds_[program_.values[value].root]; }

  void Follow(const ProgramNode& node) {
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const ProgramValue& y = program_.values[node.outputs[k]];
      if (!IsFloat(y.dtype) && y.dtype != DType::kBool) bounds_[node.outputs[k]] = Of(node, k);
    }
  }

 private:
  static double Largest(const HostTensor& tensor) {
    if (IsFloat(tensor.dtype)) return kUnknown;
    double largest = 0;
    for (const int64_t x : IntsOf(tensor)) largest = std::max(largest, std::fabs(static_cast<double>(x)));
    return largest;
  }

  static double Given(const ProgramSource& source, const JacobianProblem& problem) {
    double largest = 0;
    bool given = false;
    for (const NamedTensors* tensors :
         {&problem.inputs, &problem.second_inputs, &problem.shared_inputs, &problem.weights}) {
      for (const auto& [name, tensor] : *tensors) {
        if (name != source.name) continue;
        largest = std::max(largest, Largest(tensor));
        given = true;
      }
    }
    if (given) return largest;
    return source.initial != nullptr ? Largest(*source.initial) : kUnknown;
  }

  // Of output k.
  double Of(const ProgramNode& node, size_t k) const {
    const auto in = [&](size_t i) { return i < node.inputs.size() ? (*this)[node.inputs[i]] : 0.0; };
    const auto elements = [&](int value) {
      return value < 0 ? 0.0 : static_cast<double>(program_.values[value].elements);
    };
    const std::string& op = node.op_type;
    const double a = in(0), b = in(1), n = elements(node.inputs[0]);
    const double summed = n / std::max(elements(node.outputs[k]), 1.0);  // into one number
    if (op == "Add" || op == "Sub") return a + b;
    if (op == "Mul") return a == 0 || b == 0 ? 0 : a * b;
    if (op == "Pow") return std::pow(std::max(a, 1.0), b);
    if (op == "Div") return a;
    if (op == "Mod") return b;
    if (op == "ReduceSum") return a * summed;
    if (op == "ReduceProd") return std::pow(std::max(a, 1.0), summed);
    if (op == "CumSum") return a * n;
    if (op == "MatMul") return a * b * static_cast<double>(program_.values[node.inputs[0]].shape.back());
    if (op == "Gemm") return kUnknown;
    if (op.starts_with("Gather")) return a;
    if (op.starts_with("Scatter")) return a + in(2) * elements(node.inputs[2]);
    if (op == "ArgMax" || op == "ArgMin" || op == "NonZero" || (op == "TopK" && k == 1)) return n;
    if (op == "Clip" && node.inputs.size() == 3 && node.inputs[1] >= 0) return std::max(b, in(2));
    double largest = 0;  // the others give some of the integers that they are given
    for (const int input : node.inputs) {
      if (input >= 0 && (op == "Cast" || !IsFloat(program_.values[input].dtype))) {
        largest = std::max(largest, (*this)[input]);
      }
    }
    return largest;
  }

  const SampleProgram& program_;
  std::vector<double> bounds_;
};

}  // namespace

std::optional<std::string> IntegersBeyondFloat32(const SampleProgram& program, const JacobianProblem& problem) {
  static const auto& kArithmetic =
      *new std::set<std::string>{"Add",    "Sub",    "Mul",  "Pow",     "ReduceSum",       "ReduceProd",
                                 "CumSum", "MatMul", "Gemm", "Scatter", "ScatterElements", "ScatterND"};
  Bounds bounds(program, problem);
  for (const ProgramNode& node : program.nodes) {
    bounds.Follow(node);
    const int y = node.outputs[0];
    if (IsFloat(program.values[y].dtype) || !kArithmetic.contains(node.op_type)) continue;
    if (bounds[y] <= kMostInFloat32) continue;
    const std::string most = std::isinf(bounds[y]) ? "an unknown number" : absl::StrCat(bounds[y]);
    return absl::StrCat("node ", node.name, " (", node.op_type, ") counts to ", most);
  }
  return std::nullopt;
}

}  // namespace jacserve::worker
