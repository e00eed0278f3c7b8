// Names and patterns of the request -> blocks.
#include <fnmatch.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status.h"
#include "worker/engine/pullback_plan.h"

namespace jacserve::worker {
namespace {

constexpr char kSecond[] = "second.";  // before an input's name: its block in the second batch

bool IsParameter(const ProgramSource& source) { return source.kind == SourceKind::kWeight && IsFloat(source.dtype); }

std::string ParameterNames(const SampleProgram& program) {
  std::vector<std::string> names;
  for (const ProgramSource& source : program.sources) {
    if (IsParameter(source)) names.push_back(source.name);
  }
  const bool more = names.size() > 20;
  if (more) names.resize(20);
  return absl::StrCat(absl::StrJoin(names, ", "), more ? ", ..." : "");
}

void AddParameter(const SampleProgram& program, int source, std::vector<BlockPlan>& blocks) {
  const bool there = std::any_of(blocks.begin(), blocks.end(), [&](const BlockPlan& b) { return b.source == source; });
  if (!there) blocks.push_back({program.sources[source].name, source});
}

void AddInputBlock(const SampleProgram& program, int source, bool second, std::vector<BlockPlan>& blocks) {
  const bool there = std::any_of(blocks.begin(), blocks.end(), [&](const BlockPlan& block) {
    return block.source == source && block.second_batch == second;
  });
  const std::string& name = program.sources[source].name;
  if (!there) blocks.push_back({second ? kSecond + name : name, source, second});
}

absl::Status AddInput(const SampleProgram& program, const std::string& name, bool pairwise,
                      std::vector<BlockPlan>& blocks) {
  for (bool second_alone : {false, true}) {  // an input may be called second.x itself
    for (size_t s = 0; s < program.sources.size(); ++s) {
      const ProgramSource& source = program.sources[s];
      if ((second_alone ? kSecond + source.name : source.name) != name || source.kind == SourceKind::kWeight) continue;
      const bool two_batches = pairwise && source.kind == SourceKind::kInput;
      if (second_alone && !two_batches) continue;
      if (!IsFloat(source.dtype)) {
        return absl::InvalidArgumentError(absl::StrCat("input ", name, " holds ", std::string(NameOf(source.dtype)),
                                                       "; there is no Jacobian with respect to integers"));
      }
      if (!second_alone) AddInputBlock(program, static_cast<int>(s), false, blocks);
      if (two_batches) AddInputBlock(program, static_cast<int>(s), true, blocks);
      return absl::OkStatus();
    }
  }
  std::vector<std::string> names;
  for (const ProgramSource& source : program.sources) {
    if (source.kind == SourceKind::kWeight) continue;
    names.push_back(source.name);
    if (pairwise && source.kind == SourceKind::kInput) names.push_back(kSecond + source.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no input named ", name, " to differentiate with respect to; there is: ", absl::StrJoin(names, ", ")));
}

}  // namespace

absl::StatusOr<std::vector<BlockPlan>> SelectBlocks(const SampleProgram& program, const JacobianProblem& problem) {
  std::vector<BlockPlan> blocks;
  const int count = static_cast<int>(program.sources.size());
  if (problem.wrt_parameters.empty() && problem.wrt_inputs.empty()) {
    // A functional graph names its parameters as inputs; then what lies in the file is a constant.
    for (int s = 0; s < count; ++s) {
      const ProgramSource& source = program.sources[s];
      if (IsParameter(source) && !(program.parameters_are_inputs && source.initial)) AddParameter(program, s, blocks);
    }
    if (blocks.empty()) {
      return absl::InvalidArgumentError("the graph has no parameters; name inputs to differentiate with respect to");
    }
  }
  for (const std::string& pattern : problem.wrt_parameters) {
    bool matched = false;
    for (int exact = 1; exact >= 0 && !matched; --exact) {  // a name may hold * or [ itself
      for (int s = 0; s < count; ++s) {
        const ProgramSource& source = program.sources[s];
        const bool fits = exact ? source.name == pattern : fnmatch(pattern.c_str(), source.name.c_str(), 0) == 0;
        if (!IsParameter(source) || !fits) continue;
        matched = true;
        AddParameter(program, s, blocks);
      }
    }
    if (!matched) {
      return absl::InvalidArgumentError(
          absl::StrCat("no parameter matches ", pattern, "; the model has: ", ParameterNames(program)));
    }
  }
  for (const std::string& name : problem.wrt_inputs) {
    RETURN_IF_ERROR(AddInput(program, name, problem.pairwise.has_value(), blocks));
  }
  return blocks;
}

}  // namespace jacserve::worker
