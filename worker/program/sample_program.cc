#include "worker/program/sample_program.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/folding.h"
#include "worker/ops/op_table.h"
#include "worker/program/check_bindings.h"

namespace jacserve::worker {
namespace {

// Stands for the number of samples while shapes are inferred. A large prime: an axis that is a multiple of it comes
// from the batch and from nothing else, and a size that the exporter baked in shows itself by not fitting.
constexpr int64_t kProbeBatch = 1'000'003;

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

class Compiler {
 public:
  // `batch`: samples, as they show in shapes; kWholeBatch: the bound batch is one sample.
  static constexpr int64_t kWholeBatch = 0;
  Compiler(const Graph& graph, const Bindings& bindings, int64_t batch)
      : graph_(graph), bindings_(bindings), whole_(batch == kWholeBatch), batch_(whole_ ? 1 : batch) {}

  absl::StatusOr<SampleProgram> Run(const std::vector<const GraphNode*>& nodes, const std::string& output) {
    BindSources(nodes, output);
    for (const GraphNode* node : nodes) {
      if (absl::Status status = CompileNode(*node); !status.ok()) return Annotate(status, *node);
    }
    const auto it = by_name_.find(output);
    JACSERVE_CHECK(it != by_name_.end());
    program_.output = it->second;
    program_.output_name = output;
    program_.output_batch_axis = facts_[program_.output].batch_axis;
    program_.output_before_samples = facts_[program_.output].before_samples;
    program_.coupled = whole_;
    return std::move(program_);
  }

 private:
  int AddValue(const std::string& name, const Facts& facts, bool batched) {
    ProgramValue value{.name = name, .dtype = facts.dtype, .shape = facts.shape, .batched = batched};
    if (facts.batch_axis >= 0) value.shape[facts.batch_axis] /= batch_;
    value.elements = Elements(value.shape);
    value.root = static_cast<int>(program_.values.size());
    program_.values.push_back(std::move(value));
    program_.views.emplace_back();
    facts_.push_back(facts);
    if (!name.empty()) by_name_[name] = program_.values.back().root;  // nobody reads an output without a name
    return program_.values.back().root;
  }

  void AddSource(const std::string& name, SourceKind kind, const BoundTensor& bound, bool live,
                 std::shared_ptr<const HostTensor> initial) {
    ProgramSource source{.name = name, .kind = kind, .dtype = bound.dtype, .shape = bound.shape, .initial = initial};
    Facts facts{IsFloat(bound.dtype) ? DType::kFloat32 : bound.dtype, bound.shape};
    if (kind == SourceKind::kInput && !whole_) {
      source.shape[0] = 1;
      facts.shape[0] = batch_;
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

  void BindSources(const std::vector<const GraphNode*>& nodes, const std::string& output) {
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

  absl::Status CompileNode(const GraphNode& node) {
    RETURN_IF_ERROR(AddValuesOf(node));
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (!node.outputs[k].empty() && !by_name_.contains(node.outputs[k])) {
        return absl::InvalidArgumentError(absl::StrCat("it has no output ", k, ", which is named ", node.outputs[k]));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddValuesOf(const GraphNode& node) {
    const int64_t opset = node.opset_version == 0 ? graph_.opset_version : node.opset_version;
    const OpEntry* entry = FindOp(node.domain, node.op_type, opset);
    JACSERVE_CHECK(entry != nullptr);  // all were looked up before
    InputFacts in{.batch = batch_};
    ProgramNode compiled{.name = node.name, .op_type = node.op_type};
    for (const std::string& input : node.inputs) {
      const auto it = by_name_.find(input);
      in.present.push_back(it != by_name_.end());
      in.facts.push_back(it == by_name_.end() ? Facts{} : facts_[it->second]);
      compiled.inputs.push_back(it == by_name_.end() ? -1 : it->second);
      if (it != by_name_.end() && program_.values[it->second].batched) compiled.batched = true;
    }
    if (entry->expand != nullptr) {
      Expansion expansion(node, in);
      RETURN_IF_ERROR(entry->expand(expansion, static_cast<int>(opset)));
      for (const GraphNode& part : expansion.Finish()) RETURN_IF_ERROR(CompileNode(part));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Op> op, entry->make(node, static_cast<int>(opset)));
    ASSIGN_OR_RETURN(std::vector<Facts> out, op->InferShapes(in));
    for (const Facts& y : out) RETURN_IF_ERROR(ElementCount(y.shape).status());  // what follows multiplies sizes freely
    ASSIGN_OR_RETURN(auto folded, op->Fold(in));
    if (folded.has_value()) {
      for (size_t k = 0; k < folded->size() && k < node.outputs.size(); ++k) {
        auto constant = std::make_shared<const HostTensor>(std::move((*folded)[k]));
        const bool is_float = IsFloat(constant->dtype);
        const int value = AddValue(node.outputs[k],
                                   {.dtype = is_float ? DType::kFloat32 : constant->dtype,
                                    .shape = constant->shape,
                                    .constant = KnownNow(constant),
                                    .floats = is_float ? constant : nullptr},
                                   false);
        program_.values[value].constant = std::move(constant);
      }
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<int> axes, op->FollowBatchAxis(in, out));
    return AddNode(node, std::move(op), std::move(compiled), in, std::move(out), axes);
  }

  absl::Status AddNode(const GraphNode& node, std::unique_ptr<Op> op, ProgramNode compiled, const InputFacts& in,
                       std::vector<Facts> out, const std::vector<int>& axes) {
    std::vector<Shape> in_shapes, out_shapes;
    for (int input : compiled.inputs) in_shapes.push_back(input < 0 ? Shape{} : program_.values[input].shape);
    while (!compiled.inputs.empty() && compiled.inputs.back() < 0) {  // trailing optional inputs do not count
      compiled.inputs.pop_back();
      in_shapes.pop_back();
    }
    if (compiled.inputs.empty()) return absl::InvalidArgumentError("needs an input");
    for (size_t k = 0; k < out.size(); ++k) out[k].batch_axis = axes[k];
    ASSIGN_OR_RETURN(const int64_t before_samples, op->FollowBeforeSamples(in, out));
    for (size_t k = 0; k < out.size(); ++k) {
      if (IsFloat(out[k].dtype)) out[k].dtype = DType::kFloat32;
      out[k].before_samples = before_samples;
      const std::string& name = k < node.outputs.size() ? node.outputs[k] : std::string();
      compiled.outputs.push_back(AddValue(name, out[k], compiled.batched));
      out_shapes.push_back(program_.values.back().shape);
    }
    for (int input : compiled.inputs) {
      if (!whole_ && input >= 0 && program_.values[input].batched && facts_[input].batch_axis < 0) {
        return absl::UnimplementedError("an input whose samples cannot be told apart");
      }
    }
    RETURN_IF_ERROR(op->Bind(in, in_shapes, out_shapes));
    ProgramValue& y = program_.values[compiled.outputs[0]];
    const auto& view = program_.views[compiled.inputs[0] < 0 ? 0 : compiled.inputs[0]];
    if (!compiled.batched && compiled.inputs[0] >= 0 && view.has_value()) {
      if (auto moved = op->ViewOf(view->second)) program_.views[compiled.outputs[0]] = {view->first, *moved};
    }
    if (op->IsAlias()) {
      y.root = program_.values[compiled.inputs[0]].root;
      y.constant = program_.values[compiled.inputs[0]].constant;
      return absl::OkStatus();
    }
    compiled.op = std::move(op);
    program_.nodes.push_back(std::move(compiled));
    return absl::OkStatus();
  }

  const Graph& graph_;
  const Bindings& bindings_;
  const bool whole_;
  const int64_t batch_;
  SampleProgram program_;
  std::vector<Facts> facts_;
  std::map<std::string, int> by_name_;
};

// What CompileSampleProgram asks of the output.
absl::StatusOr<SampleProgram> WithJacobian(absl::StatusOr<SampleProgram> program) {
  if (!program.ok()) return program;
  const ProgramValue& value = program->values[program->output];
  if (!value.batched) {
    return absl::InvalidArgumentError(
        absl::StrCat("output ", program->output_name, " does not depend on any batched input"));
  }
  if (!IsFloat(value.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("output ", program->output_name, " holds ",
                                                   std::string(NameOf(value.dtype)), "; there is no Jacobian of it"));
  }
  return program;
}

struct Checked {
  std::vector<const GraphNode*> nodes;
  std::string output;
};
absl::StatusOr<Checked> Check(const Graph& graph, const Bindings& bindings) {
  Checked checked;
  checked.output = bindings.output.empty() && graph.outputs.size() == 1 ? graph.outputs[0].name : bindings.output;
  ASSIGN_OR_RETURN(checked.nodes, LiveNodes(graph, checked.output));
  RETURN_IF_ERROR(CheckOperators(graph, checked.nodes));
  RETURN_IF_ERROR(CheckBindings(graph, bindings));
  return checked;
}

}  // namespace

absl::StatusOr<SampleProgram> CompileSharedProgram(const Graph& graph, const Bindings& bindings) {
  ASSIGN_OR_RETURN(const Checked checked, Check(graph, bindings));
  return Compiler(graph, bindings, Compiler::kWholeBatch).Run(checked.nodes, checked.output);
}

absl::StatusOr<SampleProgram> CompileSampleProgram(const Graph& graph, const Bindings& bindings) {
  ASSIGN_OR_RETURN(const auto checked, Check(graph, bindings));
  const auto& [nodes, output] = checked;
  if (bindings.inputs.empty()) return absl::InvalidArgumentError("no batched input was given");

  absl::StatusOr<SampleProgram> program = Compiler(graph, bindings, kProbeBatch).Run(nodes, output);
  // A file exported at a fixed batch size may have it baked into its shapes; then that size stands for the samples.
  int64_t declared = -1;
  for (const GraphValue& input : graph.inputs) {
    if (bindings.inputs.contains(input.name) && !input.shape.empty()) declared = std::max(declared, input.shape[0]);
  }
  if (!program.ok() && declared > 0) {
    auto baked = Compiler(graph, bindings, declared).Run(nodes, output);
    if (baked.ok()) return WithJacobian(std::move(baked));
  }
  if (program.ok()) return WithJacobian(std::move(program));
  absl::StatusOr<SampleProgram> whole = Compiler(graph, bindings, Compiler::kWholeBatch).Run(nodes, output);
  if (whole.ok()) whole->coupling = std::string(program.status().message());
  // A mixture is no error in itself: then what the whole batch fails on is the reason.
  const bool mixes = program.status().code() == absl::StatusCode::kFailedPrecondition;
  return WithJacobian(whole.ok() || mixes ? std::move(whole) : std::move(program));
}

}  // namespace jacserve::worker
