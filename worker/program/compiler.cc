#include "worker/program/compiler.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/folding.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

// Multiples of kProbeBatch in a message, as the user knows them: N, 2N, ..
std::string WithoutProbe(absl::string_view message) {
  std::string text;
  for (size_t at = 0; at < message.size();) {
    const size_t end = std::min(message.find_first_not_of("0123456789", at), message.size());
    int64_t number = 0;
    const absl::string_view digits = message.substr(at, end - at);
    if (absl::SimpleAtoi(digits, &number) && number > 0 && number % kProbeBatch == 0) {
      absl::StrAppend(&text, number == kProbeBatch ? "" : absl::StrCat(number / kProbeBatch), "N");
    } else {
      absl::StrAppend(&text, digits);
    }
    at = end;
    if (at < message.size()) text += message[at++];
  }
  return text;
}

absl::Status Annotate(const absl::Status& status, const GraphNode& node) {
  return absl::Status(status.code(),
                      absl::StrCat("node ", node.name, " (", node.op_type, "): ", WithoutProbe(status.message())));
}

// What Facts state of a constant. Few floats are known to operators, for the arithmetic of shapes; weights are not.
std::shared_ptr<const HostTensor> KnownNow(const std::shared_ptr<const HostTensor>& constant) {
  constexpr int64_t kMostFloats = 4096;
  if (!IsFloat(constant->dtype)) return constant;
  if (Elements(constant->shape) > kMostFloats) return nullptr;
  return std::make_shared<const HostTensor>(FloatConstant(constant->shape, ConstantNumbers(*constant)));
}

bool SameTensor(const std::shared_ptr<const HostTensor>& a, const std::shared_ptr<const HostTensor>& b) {
  if (a == b) return true;
  return a != nullptr && b != nullptr && a->dtype == b->dtype && a->shape == b->shape && *a->bytes == *b->bytes;
}

absl::Status CountsSamples(int64_t also) {
  return MixesSamples(
      absl::StrCat("it computes with the number of samples, and is another function for ", also, " of them"));
}

bool SameNumbers(const Facts& a, const Facts& b) {
  return SameTensor(a.constant, b.constant) && SameTensor(a.floats, b.floats);
}

bool SameAttributes(const GraphNode& a, const GraphNode& b) {
  const auto same = [](const auto& x, const auto& y) {
    if (x.first != y.first || x.second.index() != y.second.index()) return false;
    if (const auto* tensor = std::get_if<HostTensor>(&x.second)) {
      const HostTensor& other = std::get<HostTensor>(y.second);
      return tensor->dtype == other.dtype && tensor->shape == other.shape && *tensor->bytes == *other.bytes;
    }
    return std::visit(
        [&](const auto& value) {
          using Value = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<Value, HostTensor>) {
            return false;
          } else {
            return value == std::get<Value>(y.second);
          }
        },
        x.second);
  };
  return std::equal(a.attributes.begin(), a.attributes.end(), b.attributes.begin(), b.attributes.end(), same);
}

}  // namespace

absl::StatusOr<SampleProgram> Compiler::Run(const std::vector<const GraphNode*>& nodes, const std::string& output) {
  BindSources(nodes, output);
  for (const GraphNode* node : nodes) {
    if (absl::Status status = CompileNode(*node, *node); !status.ok()) return Annotate(status, *node);
  }
  const auto it = by_name_.find(output);
  JACSERVE_CHECK(it != by_name_.end());
  program_.output = it->second;
  program_.output_name = output;
  program_.output_batch_axis = facts_[program_.output].batch_axis;
  program_.output_before_samples = facts_[program_.output].before_samples;
  program_.coupled = form_.whole;
  return std::move(program_);
}

std::map<std::string, int> Compiler::BatchAxes() const {
  std::map<std::string, int> axes;
  for (const auto& [name, value] : by_name_) axes[name] = facts_[value].batch_axis;
  return axes;
}

Facts Compiler::AsAlso(const Facts& facts) const {
  Facts also = facts;
  if (facts.batch_axis >= 0) {
    int64_t& size = also.shape[facts.batch_axis];
    size = size / form_.samples * *form_.also;
  }
  return also;
}

int Compiler::AddValue(const std::string& name, const Facts& facts, bool batched) {
  ProgramValue value{.name = name, .dtype = facts.dtype, .shape = facts.shape, .batched = batched};
  if (facts.batch_axis >= 0) value.shape[facts.batch_axis] /= form_.samples;
  value.elements = Elements(value.shape);
  value.root = static_cast<int>(program_.values.size());
  program_.values.push_back(std::move(value));
  program_.views.emplace_back();
  facts_.push_back(facts);
  if (form_.also) also_.push_back(AsAlso(facts));
  if (!name.empty()) by_name_[name] = program_.values.back().root;  // nobody reads an output without a name
  return program_.values.back().root;
}

void Compiler::AddSource(const std::string& name, SourceKind kind, const BoundTensor& bound, bool live,
                         std::shared_ptr<const HostTensor> initial) {
  ProgramSource source{.name = name, .kind = kind, .dtype = bound.dtype, .shape = bound.shape, .initial = initial};
  Facts facts{IsFloat(bound.dtype) ? DType::kFloat32 : bound.dtype, bound.shape};
  if (kind == SourceKind::kInput && !form_.whole) {
    source.shape[0] = 1;
    facts.shape[0] = form_.samples;
    facts.batch_axis = 0;
  } else if (initial != nullptr) {
    (IsFloat(bound.dtype) ? facts.floats : facts.constant) = initial;
  }
  if (live) {
    source.value = AddValue(name, facts, kind == SourceKind::kInput);
    program_.values[source.value].source = static_cast<int>(program_.sources.size());
    if (kind != SourceKind::kInput) {
      program_.views[source.value] = {static_cast<int>(program_.sources.size()),
                                      {bound.shape, RowMajorStrides(bound.shape)}};
    }
  }
  program_.sources.push_back(std::move(source));
}

void Compiler::BindSources(const std::vector<const GraphNode*>& nodes, const std::string& output) {
  std::map<std::string, bool> used = {{output, true}};
  for (const GraphNode* node : nodes) {
    for (const std::string& input : node->inputs) used[input] = true;
  }
  for (const GraphValue& input : graph_.inputs) {
    const bool live = used.contains(input.name);
    if (const auto it = bindings_.inputs.find(input.name); it != bindings_.inputs.end()) {
      AddSource(input.name, SourceKind::kInput, it->second, live, nullptr);
    } else if (const auto s = bindings_.shared_inputs.find(input.name); s != bindings_.shared_inputs.end()) {
      AddSource(input.name, SourceKind::kSharedInput, s->second, live, nullptr);
    } else if (const auto w = bindings_.weights.find(input.name); w != bindings_.weights.end()) {
      AddSource(input.name, SourceKind::kWeight, w->second, live, nullptr);
      program_.parameters_are_inputs = true;
    }
  }
  for (const auto& [name, tensor] : graph_.initializers) {
    const bool live = used.contains(name);
    if (const auto w = bindings_.weights.find(name); w != bindings_.weights.end()) {
      AddSource(name, SourceKind::kWeight, w->second, live, nullptr);
    } else {
      AddSource(name, SourceKind::kWeight, {tensor.dtype, tensor.shape}, live,
                std::make_shared<const HostTensor>(tensor));
    }
  }
  for (const auto& [name, bound] : bindings_.weights) {
    const bool known = std::any_of(program_.sources.begin(), program_.sources.end(),
                                   [&, n = name](const ProgramSource& source) { return source.name == n; });
    if (!known) AddSource(name, SourceKind::kWeight, bound, false, nullptr);
  }
}

absl::Status Compiler::CompileNode(const GraphNode& node, const GraphNode& also) {
  RETURN_IF_ERROR(AddValuesOf(node, also));
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (!node.outputs[k].empty() && !by_name_.contains(node.outputs[k])) {
      return absl::InvalidArgumentError(absl::StrCat("it has no output ", k, ", which is named ", node.outputs[k]));
    }
  }
  return absl::OkStatus();
}

InputFacts Compiler::FactsOf(const GraphNode& node, bool also) const {
  InputFacts in{.batch = also ? *form_.also : form_.samples};
  for (const std::string& input : node.inputs) {
    const auto it = by_name_.find(input);
    in.present.push_back(it != by_name_.end());
    in.facts.push_back(it == by_name_.end() ? Facts{} : (also ? also_ : facts_)[it->second]);
  }
  if (form_.axes == nullptr) return in;
  const auto axis = form_.axes->find(node.outputs.empty() ? "" : node.outputs[0]);
  if (axis != form_.axes->end()) in.likely_axis = axis->second;
  return in;
}

absl::Status Compiler::AddValuesOf(const GraphNode& node, const GraphNode& also) {
  const OpEntry* entry = FindOp(node.domain, node.op_type, OpsetOf(node));
  JACSERVE_CHECK(entry != nullptr);  // all were looked up before
  const InputFacts in = FactsOf(node, false), in_also = form_.also ? FactsOf(node, true) : InputFacts{};
  if (entry->expand != nullptr) return AddParts(node, also, in, in_also);
  ASSIGN_OR_RETURN(std::unique_ptr<Op> op, entry->make(node, static_cast<int>(OpsetOf(node))));
  ASSIGN_OR_RETURN(std::vector<Facts> out, op->InferShapes(in));
  for (const Facts& y : out) RETURN_IF_ERROR(ElementCount(y.shape).status());  // what follows multiplies sizes freely
  ASSIGN_OR_RETURN(const bool folded, AddFolded(node, also, *op, in, in_also));
  if (folded) return absl::OkStatus();
  if (!SameAttributes(node, also)) return MixesSamples("it is another one for every number of samples");
  return AddNode(node, std::move(op), in, in_also, std::move(out));
}

absl::Status Compiler::AddParts(const GraphNode& node, const GraphNode& also, const InputFacts& in,
                                const InputFacts& in_also) {
  const auto parts_of = [&](const GraphNode& whole, const InputFacts& facts) -> absl::StatusOr<std::vector<GraphNode>> {
    Expansion expansion(whole, facts);
    RETURN_IF_ERROR(
        FindOp(node.domain, node.op_type, OpsetOf(node))->expand(expansion, static_cast<int>(OpsetOf(node))));
    return expansion.Finish();
  };
  ASSIGN_OR_RETURN(const std::vector<GraphNode> parts, parts_of(node, in));
  // With a size baked into the file the parts have it too, as sizes of axes: no expansion counts samples.
  const bool baked = form_.also && form_.axes == nullptr;
  for (size_t i = 0; baked && i < in.size(); ++i) {
    if (!SameNumbers(in[i], in_also[i])) return CountsSamples(*form_.also);
  }
  if (!form_.also || baked) {
    for (const GraphNode& part : parts) RETURN_IF_ERROR(CompileNode(part, part));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<GraphNode> parts_also, parts_of(also, in_also));
  const auto same = [](const GraphNode& a, const GraphNode& b) {
    return a.op_type == b.op_type && a.inputs == b.inputs && a.outputs == b.outputs;
  };
  if (!std::equal(parts.begin(), parts.end(), parts_also.begin(), parts_also.end(), same)) {
    return MixesSamples("it is made of other operators for every number of samples");
  }
  for (size_t k = 0; k < parts.size(); ++k) RETURN_IF_ERROR(CompileNode(parts[k], parts_also[k]));
  return absl::OkStatus();
}

absl::StatusOr<bool> Compiler::AddFolded(const GraphNode& node, const GraphNode& also, const Op& op,
                                         const InputFacts& in, const InputFacts& in_also) {
  ASSIGN_OR_RETURN(auto folded, op.Fold(in));
  if (!folded.has_value()) return false;
  const auto facts_of = [](const std::shared_ptr<const HostTensor>& constant) {
    const bool is_float = IsFloat(constant->dtype);
    return Facts{.dtype = is_float ? DType::kFloat32 : constant->dtype,
                 .shape = constant->shape,
                 .constant = KnownNow(constant),
                 .floats = is_float ? constant : nullptr};
  };
  std::optional<std::vector<HostTensor>> folded_also;
  if (form_.also) {
    const OpEntry* entry = FindOp(node.domain, node.op_type, OpsetOf(node));
    ASSIGN_OR_RETURN(const std::unique_ptr<Op> op_also, entry->make(also, static_cast<int>(OpsetOf(node))));
    ASSIGN_OR_RETURN(folded_also, op_also->Fold(in_also));
    if (!folded_also.has_value() || folded_also->size() != folded->size()) {
      return MixesSamples("it is known for some numbers of samples only");
    }
  }
  for (size_t k = 0; k < folded->size() && k < node.outputs.size(); ++k) {
    const auto constant = std::make_shared<const HostTensor>(std::move((*folded)[k]));
    const int value = AddValue(node.outputs[k], facts_of(constant), false);
    program_.values[value].constant = constant;
    if (form_.also) also_[value] = facts_of(std::make_shared<const HostTensor>(std::move((*folded_also)[k])));
  }
  return true;
}

// Sizes follow the batch axis, so that a node is the same for every sample of either batch, unless a number that it
// reads is another one.
absl::Status Compiler::CheckAlso(const Op& op, const InputFacts& in, const InputFacts& in_also,
                                 const std::vector<Facts>& out) const {
  bool same = true;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in.has(i) || op.RoleOf(static_cast<int>(i)) == InputRole::kType || SameNumbers(in[i], in_also[i])) continue;
    if (op.RoleOf(static_cast<int>(i)) == InputRole::kNumbers) {
      return CountsSamples(*form_.also);
    }
    same = false;
  }
  if (same) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<Facts> out_also, op.InferShapes(in_also));
  for (size_t k = 0; k < out.size(); ++k) {
    if (out_also[k].shape != AsAlso(out[k]).shape) {
      return MixesSamples(
          absl::StrCat("its shape holds the number of samples elsewhere than along theirs: ", ShapeText(out[k].shape),
                       ", and ", ShapeText(out_also[k].shape), " for ", *form_.also, " of them"));
    }
  }
  return absl::OkStatus();
}

absl::Status Compiler::AddNode(const GraphNode& node, std::unique_ptr<Op> op, const InputFacts& in,
                               const InputFacts& in_also, std::vector<Facts> out) {
  ASSIGN_OR_RETURN(const std::vector<int> axes, op->FollowBatchAxis(in, out));
  for (size_t k = 0; k < out.size(); ++k) out[k].batch_axis = axes[k];
  if (form_.also) RETURN_IF_ERROR(CheckAlso(*op, in, in_also, out));
  ProgramNode compiled{.name = node.name, .op_type = node.op_type};
  std::vector<Shape> in_shapes, out_shapes;
  for (size_t i = 0; i < in.size(); ++i) {
    const bool reads = in.has(i) && op->RoleOf(static_cast<int>(i)) != InputRole::kType;
    const int input = reads ? by_name_.at(node.inputs[i]) : -1;
    compiled.inputs.push_back(input);
    in_shapes.push_back(input < 0 ? Shape{} : program_.values[input].shape);
    compiled.batched |= input >= 0 && program_.values[input].batched;
  }
  while (!compiled.inputs.empty() && compiled.inputs.back() < 0) {  // trailing optional inputs do not count
    compiled.inputs.pop_back();
    in_shapes.pop_back();
  }
  if (compiled.inputs.empty()) return absl::InvalidArgumentError("needs an input");
  ASSIGN_OR_RETURN(const int64_t before_samples, op->FollowBeforeSamples(in, out));
  for (size_t k = 0; k < out.size(); ++k) {
    if (IsFloat(out[k].dtype)) out[k].dtype = DType::kFloat32;
    out[k].before_samples = before_samples;
    const std::string& name = k < node.outputs.size() ? node.outputs[k] : std::string();
    compiled.outputs.push_back(AddValue(name, out[k], compiled.batched));
    out_shapes.push_back(program_.values.back().shape);
  }
  for (int input : compiled.inputs) {
    if (!form_.whole && input >= 0 && program_.values[input].batched && facts_[input].batch_axis < 0) {
      return absl::UnimplementedError("an input whose samples cannot be told apart");
    }
  }
  RETURN_IF_ERROR(op->Bind(in, in_shapes, out_shapes));
  const int x = compiled.inputs[0];
  ProgramValue& y = program_.values[compiled.outputs[0]];
  if (!compiled.batched && x >= 0 && program_.views[x].has_value()) {
    const auto& [source, view] = *program_.views[x];
    if (auto moved = op->ViewOf(view)) program_.views[compiled.outputs[0]] = {source, *moved};
  }
  if (op->IsAlias()) {
    JACSERVE_CHECK(x >= 0 && program_.values[x].batched == y.batched);  // else it names memory that is not there
    y.root = program_.values[x].root;
    y.constant = program_.values[x].constant;
    return absl::OkStatus();
  }
  compiled.op = std::move(op);
  program_.nodes.push_back(std::move(compiled));
  return absl::OkStatus();
}

}  // namespace jacserve::worker
