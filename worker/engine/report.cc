// What DescribeModel says of a graph beyond what stands in it: operators, and whether samples are independent.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "worker/engine/engine.h"
#include "worker/ops/op_table.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {
namespace {

// Inputs with an axis of unknown size are data, the others parameters; as tensors nobody has to hold.
Bindings GuessBindings(const Graph& graph) {
  Bindings bindings;
  for (const GraphValue& input : graph.inputs) {
    BoundTensor bound{input.dtype.value_or(DType::kFloat32), input.shape};
    const bool data = std::any_of(bound.shape.begin(), bound.shape.end(), [](int64_t size) { return size < 0; });
    for (int64_t& size : bound.shape) size = std::max<int64_t>(size, 1);
    (data ? bindings.inputs : bindings.weights)[input.name] = std::move(bound);
  }
  return bindings;
}

}  // namespace

GraphReport ReportOn(const Graph& graph) {
  GraphReport report;
  std::map<std::pair<std::string, std::string>, GraphReport::OpCount> counts;
  bool all_supported = true;
  for (const GraphNode& node : graph.nodes) {
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
