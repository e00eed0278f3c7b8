#include "worker/model/onnx_node.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/model/onnx_parse.h"
#include "worker/model/onnx_tensor.h"
#include "worker/model/onnx_text.h"

namespace jacserve::worker {
namespace {

using onnx::AttributeProto;

constexpr int kNodeOverload = 8;  // a field that this build's ONNX classes are too old to know

// "node 'conv1' (Conv), attribute 'pads'"
std::string Describe(const GraphNode& node, const AttributeProto& attribute) {
  return absl::StrCat("node '", node.name, "' (", node.op_type, "), attribute '", attribute.name(), "'");
}

absl::Status Twice(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the graph: ", what, " is given twice"));
}

absl::Status CheckCount(const std::string& what, int64_t count, const ImportLimits& limits) {
  if (count <= limits.attribute_elements) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the graph: ", what, " has ", count, " elements; at most ",
                                                 limits.attribute_elements, " are accepted"));
}

template <class T, class List>
absl::StatusOr<AttributeValue> ReadList(const std::string& what, const List& list, const ImportLimits& limits) {
  RETURN_IF_ERROR(CheckCount(what, list.size(), limits));
  return AttributeValue(std::vector<T>(list.begin(), list.end()));
}

absl::StatusOr<AttributeValue> ReadStrings(const std::string& what, const AttributeProto& attribute,
                                           const ImportLimits& limits) {
  for (const std::string& text : attribute.strings()) RETURN_IF_ERROR(CheckText(what, text, limits.attribute_elements));
  return ReadList<std::string>(what, attribute.strings(), limits);
}

absl::Status CopyNames(const std::string& what, const google::protobuf::RepeatedPtrField<std::string>& from,
                       const ImportLimits& limits, std::vector<std::string>& to) {
  for (const std::string& name : from) {
    RETURN_IF_ERROR(CheckText(what, name, limits.name_bytes));
    to.push_back(name);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AttributeValue> ReadAttribute(const std::string& what, AttributeProto& attribute,
                                             const ImportLimits& limits) {
  switch (attribute.type()) {
    case AttributeProto::INT:
      return AttributeValue(static_cast<int64_t>(attribute.i()));
    case AttributeProto::FLOAT:
      return AttributeValue(attribute.f());
    case AttributeProto::STRING:
      RETURN_IF_ERROR(CheckText(what, attribute.s(), limits.attribute_elements));
      return AttributeValue(attribute.s());
    case AttributeProto::INTS:
      return ReadList<int64_t>(what, attribute.ints(), limits);
    case AttributeProto::FLOATS:
      return ReadList<float>(what, attribute.floats(), limits);
    case AttributeProto::STRINGS:
      return ReadStrings(what, attribute, limits);
    case AttributeProto::TENSOR: {
      if (!attribute.has_t()) return absl::InvalidArgumentError(absl::StrCat("the graph: ", what, " holds no tensor"));
      ASSIGN_OR_RETURN(HostTensor tensor, ReadTensor(what, *attribute.mutable_t(), limits));
      return AttributeValue(std::move(tensor));
    }
    case AttributeProto::GRAPH:
    case AttributeProto::GRAPHS:
      return absl::UnimplementedError(
          absl::StrCat("the graph: ", what, " holds a subgraph; control flow (If, Loop, Scan) is not supported"));
    case AttributeProto::SPARSE_TENSOR:
    case AttributeProto::SPARSE_TENSORS:
      return absl::UnimplementedError(
          absl::StrCat("the graph: ", what, " holds a sparse tensor; sparse tensors are not supported"));
    case AttributeProto::TENSORS:
    case AttributeProto::TYPE_PROTO:
    case AttributeProto::TYPE_PROTOS:
      return absl::UnimplementedError(absl::StrCat("the graph: ", what, " is of a kind that is not supported: ",
                                                   AttributeProto::AttributeType_Name(attribute.type())));
    case AttributeProto::UNDEFINED:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat("the graph: ", what, " states no type that is known"));
}

std::string CanonicalDomain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

absl::StatusOr<ReadNodeResult> ReadNode(int index, onnx::NodeProto& node, const ImportLimits& limits) {
  const std::string place = absl::StrCat(" of node ", index);
  RETURN_IF_ERROR(CheckText("the name" + place, node.name(), limits.name_bytes));
  RETURN_IF_ERROR(CheckText("the operator" + place, node.op_type(), limits.name_bytes));
  RETURN_IF_ERROR(CheckText("the domain" + place, node.domain(), limits.name_bytes));
  if (node.op_type().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the graph: node ", index, " names no operator"));
  }
  ReadNodeResult read;
  read.overload = UnknownText(node, kNodeOverload);
  GraphNode& result = read.node;
  result.name = node.name().empty() ? absl::StrCat(node.op_type(), "_", index) : node.name();
  result.op_type = node.op_type();
  result.domain = CanonicalDomain(node.domain());
  RETURN_IF_ERROR(CopyNames("the name of an input" + place, node.input(), limits, result.inputs));
  RETURN_IF_ERROR(CopyNames("the name of an output" + place, node.output(), limits, result.outputs));
  for (AttributeProto& attribute : *node.mutable_attribute()) {
    RETURN_IF_ERROR(CheckText("the name of an attribute" + place, attribute.name(), limits.name_bytes));
    const std::string what = Describe(result, attribute);
    if (!attribute.ref_attr_name().empty()) {
      RETURN_IF_ERROR(CheckText(what, attribute.ref_attr_name(), limits.name_bytes));
      if (!read.references.emplace(attribute.name(), attribute.ref_attr_name()).second) return Twice(what);
      continue;
    }
    ASSIGN_OR_RETURN(AttributeValue value, ReadAttribute(what, attribute, limits));
    if (!result.attributes.emplace(attribute.name(), std::move(value)).second) return Twice(what);
  }
  return read;
}

}  // namespace jacserve::worker
