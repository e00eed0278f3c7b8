#include "worker/program/check_bindings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {

absl::Status CheckBindings(const Graph& graph, const Bindings& bindings) {
  std::vector<std::string> missing, unknown, known;
  for (const GraphValue& input : graph.inputs) {
    known.push_back(input.name);
    const auto find = [&](const std::map<std::string, BoundTensor>& bound) {
      const auto it = bound.find(input.name);
      return it == bound.end() ? nullptr : &it->second;
    };
    const BoundTensor* data = find(bindings.inputs);
    const BoundTensor* tensor = data ? data : find(bindings.shared_inputs);
    if (tensor == nullptr) tensor = find(bindings.weights);
    if (tensor == nullptr) {
      missing.push_back(input.name);
      continue;
    }
    bool fits = !input.has_shape || input.shape.size() == tensor->shape.size();
    for (size_t axis = 0; fits && input.has_shape && axis < input.shape.size(); ++axis) {
      fits = input.shape[axis] < 0 || input.shape[axis] == tensor->shape[axis] || (data && axis == 0);
    }
    if (!fits || (data && tensor->shape.empty())) {
      std::vector<std::string> declared;
      for (size_t axis = 0; axis < input.shape.size(); ++axis) {
        declared.push_back(input.shape[axis] < 0 ? (input.symbols[axis].empty() ? "?" : input.symbols[axis])
                                                 : absl::StrCat(input.shape[axis]));
      }
      return absl::InvalidArgumentError(absl::StrCat("input ", input.name, " has shape ", ShapeText(tensor->shape),
                                                     ", the graph expects [", absl::StrJoin(declared, ", "), "]"));
    }
    if (input.dtype.has_value() && IsFloat(*input.dtype) != IsFloat(tensor->dtype)) {
      return absl::InvalidArgumentError(absl::StrCat("input ", input.name, " is ", std::string(NameOf(tensor->dtype)),
                                                     ", the graph expects ", std::string(NameOf(*input.dtype))));
    }
  }
  for (const auto& [name, tensor] : graph.initializers) {
    const auto it = bindings.weights.find(name);
    if (it != bindings.weights.end() && it->second.shape != tensor.shape) {
      return absl::InvalidArgumentError(absl::StrCat("weight ", name, " has shape ", ShapeText(it->second.shape),
                                                     ", the graph expects ", ShapeText(tensor.shape)));
    }
  }
  for (const auto* bound : {&bindings.inputs, &bindings.shared_inputs}) {
    for (const auto& [name, tensor] : *bound) {
      if (std::find(known.begin(), known.end(), name) == known.end()) unknown.push_back(name);
    }
  }
  if (missing.empty() && unknown.empty()) return absl::OkStatus();
  std::string message;
  if (!missing.empty()) message = absl::StrCat("nothing was given for graph input(s): ", absl::StrJoin(missing, ", "));
  if (!unknown.empty()) {
    absl::StrAppend(&message, message.empty() ? "" : "; ", "the graph has no input(s): ", absl::StrJoin(unknown, ", "));
  }
  return absl::InvalidArgumentError(message);
}

absl::Status CheckOperators(const Graph& graph, const std::vector<const GraphNode*>& nodes) {
  std::map<std::string, std::vector<std::string>> unsupported;
  for (const GraphNode* node : nodes) {
    const int64_t opset = node->opset_version == 0 ? graph.opset_version : node->opset_version;
    if (node->domain.empty() && opset > kNewestOpset) {
      return absl::UnimplementedError(absl::StrCat("opset ", opset, " is newer than the newest known, ", kNewestOpset,
                                                   "; export the model with that or an older one"));
    }
    if (FindOp(node->domain, node->op_type, opset) == nullptr) {
      unsupported[node->domain.empty() ? node->op_type : absl::StrCat(node->domain, ".", node->op_type)].push_back(
          node->name);
    }
  }
  if (unsupported.empty()) return absl::OkStatus();
  std::vector<std::string> parts;
  for (auto& [op, names] : unsupported) {
    const size_t count = names.size();
    if (count > 3) names.resize(3);
    parts.push_back(absl::StrCat(op, " (", count, "x: ", absl::StrJoin(names, ", "), count > 3 ? ", ...)" : ")"));
  }
  return absl::UnimplementedError(absl::StrCat("operators that opset ", graph.opset_version,
                                               " names and jacserve does not have: ", absl::StrJoin(parts, "; ")));
}

}  // namespace jacserve::worker
