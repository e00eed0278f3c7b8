// What DescribeModel says of a graph beyond what stands in it: operators, and whether samples are independent.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "worker/engine/engine.h"
#include "worker/ops/op_table.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {
namespace {

// Inputs with an axis of unknown size are data, the others parameters; as tensors nobody has to hold. Where all sizes
// are known and the file holds parameters of its own, all inputs are data.
Bindings GuessBindings(const Graph& graph) {
  Bindings bindings;
  const auto open = [](const GraphValue& input) {
    return std::any_of(input.shape.begin(), input.shape.end(), [](int64_t size) { return size < 0; });
  };
  const bool any_open = std::any_of(graph.inputs.begin(), graph.inputs.end(), open);
  const bool own_parameters = std::any_of(graph.initializers.begin(), graph.initializers.end(),
                                          [](const auto& named) { return IsFloat(named.second.dtype); });
  for (const GraphValue& input : graph.inputs) {
    BoundTensor bound{input.dtype.value_or(DType::kFloat32), input.shape};
    const bool data = any_open ? open(input) : own_parameters && !input.shape.empty();
    if (data && bound.shape[0] < 0) bound.shape[0] = 2;  // a batch; one of 1 fits more than others do
    for (int64_t& size : bound.shape) size = std::max<int64_t>(size, 1);
    (data ? bindings.inputs : bindings.weights)[input.name] = std::move(bound);
  }
  return bindings;
}

// What no output depends on is never computed, and needs no rules.
std::set<const GraphNode*> NodesOfOutputs(const Graph& graph) {
  std::set<const GraphNode*> nodes;
  for (const GraphValue& output : graph.outputs) {
    const absl::StatusOr<std::vector<const GraphNode*>> live = LiveNodes(graph, output.name);
    if (live.ok()) nodes.insert(live->begin(), live->end());
  }
  return nodes;
}

}  // namespace

GraphReport ReportOn(const Graph& graph) {
  GraphReport report;
  std::map<std::pair<std::string, std::string>, GraphReport::OpCount> counts;
  const std::set<const GraphNode*> live = NodesOfOutputs(graph);
  bool all_supported = true;
  for (const GraphNode& node : graph.nodes) {
    if (!live.contains(&node)) continue;
    GraphReport::OpCount& count = counts[{node.domain, node.op_type}];
    count.op_type = node.op_type;
    count.domain = node.domain;
    const int64_t opset = node.opset_version == 0 ? graph.opset_version : node.opset_version;
    const bool supported = FindOp(node.domain, node.op_type, opset) != nullptr;
    count.supported = supported && (count.count == 0 || count.supported);
    all_supported = all_supported && supported;
    if (++count.count <= 8) count.nodes.push_back(node.name);
  }
  for (auto& [key, count] : counts) report.operators.push_back(std::move(count));
  if (!all_supported) {
    report.samples_independent = false;
    report.coupling = "not decided: the graph has operators without rules";
    return report;
  }
  Bindings bindings = GuessBindings(graph);
  if (bindings.inputs.empty()) {
    report.samples_independent = false;
    report.coupling = "not decided: every input has a fixed size, so that none is known to hold samples";
    return report;
  }
  for (const GraphValue& output : graph.outputs) {
    bindings.output = output.name;
    const auto program = CompileSampleProgram(graph, bindings);
    if (program.ok() && !program->coupled) continue;
    report.samples_independent = false;
    report.coupling = program.ok() ? program->coupling : std::string(program.status().message());
    return report;
  }
  return report;
}

}  // namespace jacserve::worker
