#include "worker/model/onnx_import.h"

#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "onnx/onnx_pb.h"
#include "worker/model/graph_order.h"
#include "worker/model/onnx_functions.h"
#include "worker/model/onnx_node.h"
#include "worker/model/onnx_parse.h"
#include "worker/model/onnx_tensor.h"
#include "worker/model/onnx_text.h"

namespace jacserve::worker {
namespace {

template <class... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("the graph: ", parts...));
}

absl::Status ReadVersions(const onnx::ModelProto& model, const ImportLimits& limits, Graph& graph) {
  graph.ir_version = model.ir_version();
  for (const onnx::OperatorSetIdProto& opset : model.opset_import()) {
    if (!CanonicalDomain(opset.domain()).empty()) continue;
    if (graph.opset_version != 0) return Invalid("it states two versions of the standard operator set");
    graph.opset_version = opset.version();
  }
  if (graph.opset_version <= 0) return Invalid("it states no version of the standard operator set");
  RETURN_IF_ERROR(CheckText("the producer's name", model.producer_name(), limits.name_bytes));
  RETURN_IF_ERROR(CheckText("the producer's version", model.producer_version(), limits.name_bytes));
  graph.producer =
      absl::StrCat(model.producer_name(), model.producer_version().empty() ? "" : " ", model.producer_version());
  return absl::OkStatus();
}

absl::StatusOr<GraphValue> ReadValue(const char* kind, const onnx::ValueInfoProto& info, const ImportLimits& limits) {
  RETURN_IF_ERROR(CheckText(absl::StrCat("the name of an ", kind), info.name(), limits.name_bytes));
  if (info.name().empty()) return Invalid("an ", kind, " has no name");
  GraphValue value;
  value.name = info.name();
  value.has_shape = info.type().has_tensor_type() && info.type().tensor_type().has_shape();
  if (!info.type().has_tensor_type()) return value;
  value.dtype = DTypeOfOnnx(info.type().tensor_type().elem_type());
  const onnx::TensorShapeProto& shape = info.type().tensor_type().shape();
  if (shape.dim_size() > limits.rank) {
    return Invalid("the ", kind, " '", value.name, "' has ", shape.dim_size(), " axes; at most ", limits.rank,
                   " are accepted");
  }
  for (const onnx::TensorShapeProto::Dimension& axis : shape.dim()) {
    RETURN_IF_ERROR(
        CheckText(absl::StrCat("a symbol in the shape of '", value.name, "'"), axis.dim_param(), limits.name_bytes));
    const bool fixed = axis.has_dim_value() && axis.dim_value() >= 0;  // some exporters write -1 for "any"
    value.shape.push_back(fixed ? axis.dim_value() : -1);
    value.symbols.push_back(fixed ? "" : axis.dim_param());
  }
  return value;
}

absl::Status ReadNodes(onnx::ModelProto& model, const ImportLimits& limits, Graph& graph) {
  FunctionInliner functions(model, limits);
  RETURN_IF_ERROR(functions.Read());
  int index = 0;
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    ASSIGN_OR_RETURN(ReadNodeResult read, ReadNode(index++, node, limits));
    if (!read.references.empty()) {
      return Invalid("node '", read.node.name, "' refers to the attribute '", read.references.begin()->second,
                     "' of a function, but is in none");
    }
    RETURN_IF_ERROR(functions.Append(std::move(read), graph.nodes));
  }
  return absl::OkStatus();
}

std::unordered_set<std::string> UsedNames(const Graph& graph) {
  std::unordered_set<std::string> used;
  for (const GraphNode& node : graph.nodes) used.insert(node.inputs.begin(), node.inputs.end());
  for (const GraphValue& output : graph.outputs) used.insert(output.name);
  return used;
}

// Fills graph.initializers with those that are used; `names` receives all.
absl::Status ReadInitializers(onnx::GraphProto& proto, const ImportLimits& limits, Graph& graph,
                              std::unordered_set<std::string>& names) {
  if (proto.sparse_initializer_size() > 0) {
    return absl::UnimplementedError("the graph holds sparse initializers, which are not supported");
  }
  const std::unordered_set<std::string> used = UsedNames(graph);
  for (onnx::TensorProto& tensor : *proto.mutable_initializer()) {
    RETURN_IF_ERROR(CheckText("the name of an initializer", tensor.name(), limits.name_bytes));
    if (tensor.name().empty()) return Invalid("an initializer has no name");
    const std::string what = absl::StrCat("initializer '", tensor.name(), "'");
    if (!names.insert(tensor.name()).second) return Invalid(what, " is given twice");
    if (!used.contains(tensor.name())) continue;
    ASSIGN_OR_RETURN(HostTensor read, ReadTensor(what, tensor, limits));
    graph.initializers.emplace(tensor.name(), std::move(read));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph>> ImportOnnx(std::span<const std::byte> file, const ImportLimits& limits) {
  ASSIGN_OR_RETURN(std::unique_ptr<onnx::ModelProto> model, ParseOnnx(file, limits));
  onnx::GraphProto& proto = *model->mutable_graph();
  auto graph = std::make_shared<Graph>();
  RETURN_IF_ERROR(ReadVersions(*model, limits, *graph));
  RETURN_IF_ERROR(ReadNodes(*model, limits, *graph));
  std::unordered_set<std::string> output_names;
  for (const onnx::ValueInfoProto& output : proto.output()) {
    ASSIGN_OR_RETURN(GraphValue value, ReadValue("output", output, limits));
    if (!output_names.insert(value.name).second) return Invalid("the output '", value.name, "' is listed twice");
    graph->outputs.push_back(std::move(value));
  }
  if (graph->outputs.empty()) return Invalid("it has no output");
  std::unordered_set<std::string> initializer_names;
  RETURN_IF_ERROR(ReadInitializers(proto, limits, *graph, initializer_names));
  for (const onnx::ValueInfoProto& input : proto.input()) {
    ASSIGN_OR_RETURN(GraphValue value, ReadValue("input", input, limits));
    if (!initializer_names.contains(value.name)) graph->inputs.push_back(std::move(value));
  }
  RETURN_IF_ERROR(OrderNodes(*graph));
  return std::shared_ptr<const Graph>(std::move(graph));
}

}  // namespace jacserve::worker
