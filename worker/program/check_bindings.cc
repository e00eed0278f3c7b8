#include "worker/program/check_bindings.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status.h"
#include "worker/ops/op_table.h"
#include "worker/program/near_names.h"

namespace jacserve::worker {

namespace {

constexpr size_t kMostNames = 8;  // of a kind, in one message

bool IsInput(const Graph& graph, const std::string& name) {
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](const GraphValue& v) { return v.name == name; });
}

// Names that the graph lacks. torch counts the batches that a normalisation has seen in every checkpoint; nothing reads
// that, and nobody wants to be told.
std::vector<std::string> UnknownWeights(const Graph& graph, const Bindings& bindings) {
  std::vector<std::string> unknown;
  for (const auto& [name, tensor] : bindings.weights) {
    const bool known = IsInput(graph, name) || graph.initializers.contains(name);
    if (!known && !absl::EndsWith(name, "num_batches_tracked")) unknown.push_back(name);
  }
  return unknown;
}

// What the graph has and nobody gave.
std::vector<std::string> NotGiven(const Graph& graph, const Bindings& bindings) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!bindings.weights.contains(name) && !bindings.inputs.contains(name) && !bindings.shared_inputs.contains(name)) {
      names.push_back(name);
    }
  };
  for (const GraphValue& input : graph.inputs) add(input.name);
  for (const auto& [name, tensor] : graph.initializers) add(name);
  return names;
}

// "a, b (did you mean c?), ..."
std::string NamesWithNearest(const std::vector<std::string>& names, const std::vector<std::string>& meant) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    const std::string nearest = NearestName(names[i], meant);
    parts.push_back(nearest.empty() ? names[i] : absl::StrCat(names[i], " (did you mean ", nearest, "?)"));
  }
  return absl::StrCat(absl::StrJoin(parts, ", "), names.size() > kMostNames ? ", ..." : "");
}

absl::Status CheckInput(const GraphValue& input, const BoundTensor& tensor, bool is_data) {
  bool fits = !input.has_shape || input.shape.size() == tensor.shape.size();
  for (size_t axis = 0; fits && input.has_shape && axis < input.shape.size(); ++axis) {
    fits = input.shape[axis] < 0 || input.shape[axis] == tensor.shape[axis] || (is_data && axis == 0);
  }
  if (!fits || (is_data && tensor.shape.empty())) {
    std::vector<std::string> declared;
    for (size_t axis = 0; axis < input.shape.size(); ++axis) {
      declared.push_back(input.shape[axis] < 0 ? (input.symbols[axis].empty() ? "?" : input.symbols[axis])
                                               : absl::StrCat(input.shape[axis]));
    }
    return absl::InvalidArgumentError(absl::StrCat("input ", input.name, " has shape ", ShapeText(tensor.shape),
                                                   ", the graph expects [", absl::StrJoin(declared, ", "), "]"));
  }
  if (input.dtype.has_value() && IsFloat(*input.dtype) != IsFloat(tensor.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("input ", input.name, " is ", std::string(NameOf(tensor.dtype)),
                                                   ", the graph expects ", std::string(NameOf(*input.dtype))));
  }
  return absl::OkStatus();
}

// A misspelt name would leave the file's own numbers in the place of those that were given, and nothing would show it.
absl::Status CheckInitializers(const Graph& graph, const Bindings& bindings,
                               const std::vector<std::string>& unknown_weights) {
  for (const auto& [name, tensor] : graph.initializers) {
    const auto it = bindings.weights.find(name);
    if (it != bindings.weights.end() && it->second.shape != tensor.shape) {
      return absl::InvalidArgumentError(absl::StrCat("weight ", name, " has shape ", ShapeText(it->second.shape),
                                                     ", the graph expects ", ShapeText(tensor.shape)));
    }
    if (it != bindings.weights.end()) continue;
    for (const std::string& unknown : unknown_weights) {
      if (bindings.weights.at(unknown).shape != tensor.shape || !IsNameRespelt(unknown, name)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the graph has no weight ", unknown, "; did you mean ", name,
          ", which is of the same shape and was not given? Rename it, or leave it out to compute with the ",
          "numbers that the file holds for ", name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBindings(const Graph& graph, const Bindings& bindings) {
  std::vector<std::string> missing, unknown;
  for (const GraphValue& input : graph.inputs) {
    const auto find = [&](const std::map<std::string, BoundTensor>& bound) {
      const auto it = bound.find(input.name);
      return it == bound.end() ? nullptr : &it->second;
    };
    const BoundTensor* data = find(bindings.inputs);
    const BoundTensor* tensor = data ? data : find(bindings.shared_inputs);
    if (tensor == nullptr) tensor = find(bindings.weights);
    if (tensor == nullptr) {
      missing.push_back(input.name);
    } else {
      RETURN_IF_ERROR(CheckInput(input, *tensor, data != nullptr));
    }
  }
  for (const auto* bound : {&bindings.inputs, &bindings.shared_inputs}) {
    for (const auto& [name, tensor] : *bound) {
      if (!IsInput(graph, name)) unknown.push_back(name);
    }
  }
  const std::vector<std::string> unknown_weights = UnknownWeights(graph, bindings);
  if (missing.empty() && unknown.empty()) return CheckInitializers(graph, bindings, unknown_weights);
  std::string message;
  const auto say = [&](const char* what, const std::string& names) {
    absl::StrAppend(&message, message.empty() ? "" : "; ", what, names);
  };
  if (!missing.empty()) say("nothing was given for graph input(s): ", absl::StrJoin(missing, ", "));
  if (!unknown.empty()) say("the graph has no input(s): ", NamesWithNearest(unknown, missing));
  if (!missing.empty() && !unknown_weights.empty()) {
    say("the graph has no weight(s): ", NamesWithNearest(unknown_weights, missing));
  }
  if (!missing.empty() && bindings.weights.empty()) message += "; parameters among them are given as weights";
  return absl::InvalidArgumentError(message);
}

std::vector<std::string> NoticesOf(const Graph& graph, const Bindings& bindings) {
  const std::vector<std::string> unknown = UnknownWeights(graph, bindings);
  if (unknown.empty()) return {};
  return {absl::StrCat("the graph lacks ", unknown.size(), " of the ", bindings.weights.size(),
                       " weights, which take no part: ", NamesWithNearest(unknown, NotGiven(graph, bindings)))};
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
