#include "worker/service/describe.h"

#include <algorithm>

#include "common/proto_convert.h"

namespace jacserve::worker {
namespace {

void Fill(const GraphValue& value, v1::TensorInfo& info) {
  info.set_name(value.name);
  info.set_dtype(value.dtype.has_value() ? ToProto(*value.dtype) : v1::DATA_TYPE_UNSPECIFIED);
  info.mutable_shape()->Assign(value.shape.begin(), value.shape.end());
  info.mutable_symbols()->Assign(value.symbols.begin(), value.symbols.end());
}

void Fill(const std::string& name, const HostTensor& tensor, v1::TensorInfo& info) {
  info.set_name(name);
  info.set_dtype(ToProto(tensor.dtype));
  for (int64_t size : tensor.shape) {
    info.add_shape(size);
    info.add_symbols();
  }
}

bool IsFixedFloat(const GraphValue& value) {
  const bool fixed = std::none_of(value.shape.begin(), value.shape.end(), [](int64_t size) { return size < 0; });
  return value.has_shape && fixed && value.dtype.has_value() && IsFloat(*value.dtype);
}

void FillValues(const Graph& graph, v1::ModelDescription& description) {
  const bool has_data = !std::all_of(graph.inputs.begin(), graph.inputs.end(), IsFixedFloat);
  const bool has_weights = std::any_of(graph.initializers.begin(), graph.initializers.end(),
                                       [](const auto& named) { return IsFloat(named.second.dtype); });
  // A graph with weights inside whose batch is of fixed size: its inputs are data all the same.
  const bool fixed_inputs_are_data = !has_data && has_weights;
  for (const GraphValue& input : graph.inputs) {
    const bool is_parameter = IsFixedFloat(input) && !fixed_inputs_are_data;
    Fill(input, is_parameter ? *description.add_parameters() : *description.add_inputs());
  }
  if (description.parameters_size() == 0) {
    for (const auto& [name, tensor] : graph.initializers) {
      if (IsFloat(tensor.dtype)) Fill(name, tensor, *description.add_parameters());
    }
  }
  for (const GraphValue& output : graph.outputs) Fill(output, *description.add_outputs());
}

}  // namespace

v1::ModelDescription DescribeGraph(const Graph& graph, const GraphReport& report) {
  v1::ModelDescription description;
  FillValues(graph, description);
  for (const GraphReport::OpCount& op : report.operators) {
    v1::OperatorCount& count = *description.add_operators();
    count.set_op_type(op.op_type);
    count.set_domain(op.domain);
    count.set_count(op.count);
    count.set_supported(op.supported);
    count.mutable_nodes()->Assign(op.nodes.begin(), op.nodes.end());
  }
  description.set_ir_version(graph.ir_version);
  description.set_opset_version(graph.opset_version);
  description.set_producer(graph.producer);
  description.set_samples_independent(report.samples_independent);
  description.set_coupling(report.coupling);
  return description;
}

}  // namespace jacserve::worker
