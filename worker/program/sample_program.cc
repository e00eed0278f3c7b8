#include "worker/program/sample_program.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/program/check_bindings.h"
#include "worker/program/compiler.h"

namespace jacserve::worker {
namespace {

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

// The numbers of samples that the program is for: one, or two of a pairwise target.
std::set<int64_t> Batches(const Bindings& bindings) {
  const int64_t first = std::max<int64_t>(bindings.inputs.begin()->second.shape[0], 1);
  return {first, std::max<int64_t>(bindings.second_batch.value_or(first), 1)};
}

// Where a sample of `a` and one of `b` part, in the user's names; empty when they are the same network.
std::string FirstDifference(const SampleProgram& a, const SampleProgram& b) {
  const auto same_node = [](const ProgramNode& x, const ProgramNode& y) {
    return x.op_type == y.op_type && x.inputs == y.inputs && x.outputs == y.outputs;
  };
  const auto same_value = [](const ProgramValue& x, const ProgramValue& y) {
    return x.name == y.name && x.shape == y.shape && x.batched == y.batched && x.root == y.root;
  };
  const auto node = std::mismatch(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), same_node).first;
  if (node != a.nodes.end()) return absl::StrCat("node ", node->name, " (", node->op_type, ")");
  const auto value =
      std::mismatch(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), same_value).first;
  if (value != a.values.end()) return absl::StrCat("value ", value->name);
  return a.nodes.size() == b.nodes.size() && a.values.size() == b.values.size()
             ? ""
             : absl::StrCat("output ", a.output_name);
}

// The samples' axes are the probe's; all numbers, and what follows from them, are those of the real batches.
absl::StatusOr<SampleProgram> AtRealBatches(const Graph& graph, const Bindings& bindings, const Checked& checked,
                                            const std::map<std::string, int>& axes) {
  const std::set<int64_t> batches = Batches(bindings);
  const int64_t large = *batches.rbegin(), small = *batches.begin();
  if (large == small) {
    return Compiler(graph, bindings, {.samples = large, .axes = &axes}).Run(checked.nodes, checked.output);
  }
  ASSIGN_OR_RETURN(
      SampleProgram program,
      Compiler(graph, bindings, {.samples = large, .also = small, .axes = &axes}).Run(checked.nodes, checked.output));
  ASSIGN_OR_RETURN(const SampleProgram other,
                   Compiler(graph, bindings, {.samples = small, .axes = &axes}).Run(checked.nodes, checked.output));
  const std::string where = FirstDifference(program, other);
  if (where.empty()) return program;
  return absl::FailedPreconditionError(
      absl::StrCat(where, ": a sample is another network in a batch of ", large, " than in one of ", small));
}

// A file exported at a fixed batch size may have it baked into its shapes; then that size stands for the samples, and
// what the graph itself computes of its shapes must not be told from what it is for the real batches.
absl::StatusOr<SampleProgram> AtDeclaredBatch(const Graph& graph, const Bindings& bindings, const Checked& checked) {
  int64_t declared = -1;
  for (const GraphValue& input : graph.inputs) {
    if (bindings.inputs.contains(input.name) && !input.shape.empty()) declared = std::max(declared, input.shape[0]);
  }
  if (declared <= 0) return absl::FailedPreconditionError("the file states no batch size");
  absl::StatusOr<SampleProgram> program = absl::InternalError("no batch");
  for (int64_t batch : Batches(bindings)) {
    const auto also = batch == declared ? std::nullopt : std::optional<int64_t>(batch);
    program = Compiler(graph, bindings, {.samples = declared, .also = also}).Run(checked.nodes, checked.output);
    RETURN_IF_ERROR(program.status());
  }
  return program;
}

// Why there is no program, of one sample or of the whole batch. The batch's is what the user's own numbers meet, so it
// comes first; a mixture of samples is no error in itself.
absl::Status BothFailed(const absl::Status& sample, const absl::Status& whole) {
  if (absl::IsFailedPrecondition(sample) || sample.message() == whole.message()) return whole;
  return absl::Status(whole.code(),
                      absl::StrCat(whole.message(), "; and for one sample at a time: ", sample.message()));
}

}  // namespace

absl::StatusOr<SampleProgram> CompileSharedProgram(const Graph& graph, const Bindings& bindings) {
  ASSIGN_OR_RETURN(const Checked checked, Check(graph, bindings));
  return Compiler(graph, bindings, {.whole = true}).Run(checked.nodes, checked.output);
}

namespace {

// The samples apart from each other where the graph allows it, else the batch as one.
absl::StatusOr<SampleProgram> CompileChecked(const Graph& graph, const Bindings& bindings, const Checked& checked) {
  Compiler probe(graph, bindings, {.samples = kProbeBatch});
  absl::StatusOr<SampleProgram> program = probe.Run(checked.nodes, checked.output);
  if (program.ok()) {
    program = AtRealBatches(graph, bindings, checked, probe.BatchAxes());
  } else if (auto baked = AtDeclaredBatch(graph, bindings, checked); baked.ok()) {
    program = std::move(baked);
  }
  if (program.ok()) return WithJacobian(std::move(program));
  absl::StatusOr<SampleProgram> whole = Compiler(graph, bindings, {.whole = true}).Run(checked.nodes, checked.output);
  if (whole.ok()) whole->coupling = std::string(program.status().message());
  if (!whole.ok()) return BothFailed(program.status(), whole.status());
  return WithJacobian(std::move(whole));
}

}  // namespace

absl::StatusOr<SampleProgram> CompileSampleProgram(const Graph& graph, const Bindings& bindings) {
  ASSIGN_OR_RETURN(const Checked checked, Check(graph, bindings));
  if (bindings.inputs.empty()) return absl::InvalidArgumentError("no batched input was given");
  ASSIGN_OR_RETURN(SampleProgram program, CompileChecked(graph, bindings, checked));
  program.notices = NoticesOf(graph, bindings);
  return program;
}

}  // namespace jacserve::worker
