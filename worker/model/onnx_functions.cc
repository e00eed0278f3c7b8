#include "worker/model/onnx_functions.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/model/onnx_parse.h"
#include "worker/model/onnx_text.h"

namespace jacserve::worker {
namespace {

constexpr size_t kMostNesting = 64;  // calls within calls

// Fields that this build's ONNX classes are too old to know.
constexpr int kFunctionDefaults = 11, kFunctionOverload = 13;

template <class... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("the graph: ", parts...));
}

// The names that a call's values and the function's own take in the graph.
class Renaming {
 public:
  explicit Renaming(int64_t number) : prefix_(absl::StrCat("\x1f", number, "\x1f")) {}

  bool Bind(const std::string& inside, const std::string& outside) { return names_.emplace(inside, outside).second; }
  std::string operator()(const std::string& inside) const {
    if (inside.empty()) return inside;
    const auto it = names_.find(inside);
    return it == names_.end() ? prefix_ + inside : it->second;
  }

 private:
  std::string prefix_;  // no name that an exporter writes holds this character
  std::map<std::string, std::string> names_;
};

// Fields that a copy of the node takes, as a measure of memory.
int64_t Fields(const GraphNode& node) {
  size_t fields = 1 + node.inputs.size() + node.outputs.size();
  const auto elements = [](const auto& value) -> size_t {
    if constexpr (requires { value.size(); }) return value.size();
    return 1;
  };
  for (const auto& [name, value] : node.attributes) fields += std::visit(elements, value);
  return static_cast<int64_t>(fields);
}

GraphNode Copy(const std::string& from, const std::string& to, const GraphNode& call) {
  return {
      .name = absl::StrCat(call.name, "\x1f", "Identity"), .op_type = "Identity", .inputs = {from}, .outputs = {to}};
}

}  // namespace

absl::Status FunctionInliner::Read() {
  for (onnx::FunctionProto& proto : *model_.mutable_functions()) {
    RETURN_IF_ERROR(CheckText("the name of a function", proto.name(), limits_.name_bytes));
    RETURN_IF_ERROR(CheckText("the domain of a function", proto.domain(), limits_.name_bytes));
    const std::string overload = UnknownText(proto, kFunctionOverload);
    if (!functions_.emplace(Key{CanonicalDomain(proto.domain()), proto.name(), overload}, Function{&proto}).second) {
      return Invalid("the function '", proto.name(), "' is given twice");
    }
  }
  return absl::OkStatus();
}

absl::Status FunctionInliner::ReadOpsets(Function& function, const std::string& what) {
  for (const onnx::OperatorSetIdProto& own : function.proto->opset_import()) {
    const std::string domain = CanonicalDomain(own.domain());
    if (domain.empty()) {
      if (own.version() <= 0) return Invalid(what, " states no version of the standard operator set");
      function.opset_version = own.version();
      continue;
    }
    for (const onnx::OperatorSetIdProto& other : model_.opset_import()) {
      if (CanonicalDomain(other.domain()) == domain && other.version() != own.version()) {
        return absl::UnimplementedError(
            absl::StrCat("the graph: ", what, " uses another version of '", domain, "' than the graph does"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status FunctionInliner::ReadDefaults(Function& function, const std::string& what) {
  for (const std::string& bytes : UnknownTexts(*function.proto, kFunctionDefaults)) {
    onnx::AttributeProto attribute;
    RETURN_IF_ERROR(ParseMessage(bytes, limits_, attribute));
    const std::string name = attribute.name();
    RETURN_IF_ERROR(CheckText("the name of an attribute", name, limits_.name_bytes));
    ASSIGN_OR_RETURN(AttributeValue value,
                     ReadAttribute(absl::StrCat(what, ", attribute '", name, "'"), attribute, limits_));
    function.defaults.emplace(name, std::move(value));
  }
  return absl::OkStatus();
}

absl::Status FunctionInliner::ReadBody(Function& function) {
  if (function.read) return absl::OkStatus();
  const std::string what = absl::StrCat("the function '", function.proto->name(), "'");
  RETURN_IF_ERROR(ReadOpsets(function, what));
  RETURN_IF_ERROR(ReadDefaults(function, what));
  int index = 0;
  for (onnx::NodeProto& node : *function.proto->mutable_node()) {
    ASSIGN_OR_RETURN(ReadNodeResult read, ReadNode(index++, node, limits_));
    function.nodes.push_back(std::move(read));
  }
  function.read = true;
  return absl::OkStatus();
}

absl::Status FunctionInliner::Append(ReadNodeResult read, std::vector<GraphNode>& nodes) {
  if (++calls_ > limits_.nodes) {
    return Invalid("with its functions it has more than ", limits_.nodes, " nodes, which is the most accepted");
  }
  GraphNode& node = read.node;
  const Key key{node.domain, node.op_type, read.overload};
  const auto it = functions_.find(key);
  if (it == functions_.end()) {
    nodes.push_back(std::move(node));
    return absl::OkStatus();
  }
  if (open_.size() >= kMostNesting) return Invalid("calls of functions nest deeper than ", kMostNesting);
  if (!open_.insert(key).second) return Invalid("the function '", node.op_type, "' calls itself");
  RETURN_IF_ERROR(ReadBody(it->second));
  RETURN_IF_ERROR(Inline(node, it->second, nodes));
  open_.erase(key);
  return absl::OkStatus();
}

absl::Status FunctionInliner::Inline(const GraphNode& call, const Function& function, std::vector<GraphNode>& nodes) {
  const onnx::FunctionProto& proto = *function.proto;
  if (static_cast<int>(call.inputs.size()) > proto.input_size() ||
      static_cast<int>(call.outputs.size()) > proto.output_size()) {
    return Invalid("node '", call.name, "' has more inputs or outputs than the function '", proto.name(), "'");
  }
  Renaming renamed(calls_);
  for (int i = 0; i < proto.input_size(); ++i) {
    const bool given = i < static_cast<int>(call.inputs.size());
    if (!renamed.Bind(proto.input(i), given ? call.inputs[i] : "")) {
      return Invalid("the function '", proto.name(), "' has the input '", proto.input(i), "' twice");
    }
  }
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    const std::string& inside = proto.output(static_cast<int>(k));
    if (call.outputs[k].empty() || renamed.Bind(inside, call.outputs[k])) continue;
    nodes.push_back(Copy(renamed(inside), call.outputs[k], call));  // an input, or another output too
  }
  for (const ReadNodeResult& part : function.nodes) {
    GraphNode node = part.node;
    const bool short_name = call.name.size() + node.name.size() < static_cast<size_t>(limits_.name_bytes);
    node.name = absl::StrCat(short_name ? call.name : "..", "/", node.name);
    node.opset_version = function.opset_version != 0 ? function.opset_version : call.opset_version;
    for (std::string& input : node.inputs) input = renamed(input);
    for (std::string& output : node.outputs) output = renamed(output);
    for (const auto& [name, reference] : part.references) {
      const auto given = call.attributes.find(reference), fallback = function.defaults.find(reference);
      if (given != call.attributes.end()) {
        node.attributes.emplace(name, given->second);
      } else if (fallback != function.defaults.end()) {
        node.attributes.emplace(name, fallback->second);
      }
    }
    fields_ += Fields(node);
    if (fields_ > limits_.fields) return Invalid("its functions make more than ", limits_.fields, " fields");
    RETURN_IF_ERROR(Append({.node = std::move(node), .overload = part.overload}, nodes));
  }
  return absl::OkStatus();
}

}  // namespace jacserve::worker
