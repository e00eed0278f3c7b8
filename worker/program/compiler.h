// One walk through a graph, at one number of samples: values, nodes and facts in the order of the graph.
// In: a graph, what is bound, how samples show in shapes. Out: a SampleProgram. Which walks there are and which of them
// is believed is sample_program.cc's affair.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

// Stands for the number of samples where shapes are to show which axes come from it. A large prime: an axis that is a
// multiple of it comes from the batch and from nothing else, and a size that the exporter baked in does not fit.
constexpr int64_t kProbeBatch = 1'000'003;

struct WalkForm {
  int64_t samples = 1;          // as shapes state them, at least 1
  bool whole = false;           // the bound batch is one sample; then `samples` is 1
  std::optional<int64_t> also;  // the program must be right for this number of samples too
  // Where another walk found the samples, by value: it decides where this number of samples fits several axes.
  const std::map<std::string, int>* axes = nullptr;
};

class Compiler {
 public:
  Compiler(const Graph& graph, const Bindings& bindings, const WalkForm& form)
      : graph_(graph), bindings_(bindings), form_(form) {}

  // Once. FailedPrecondition: a node mixes samples, or is another function for `also`. Otherwise as
  // CompileSampleProgram.
  absl::StatusOr<SampleProgram> Run(const std::vector<const GraphNode*>& nodes, const std::string& output);
  // The batch axis of every value with a name, -1 for none.
  std::map<std::string, int> BatchAxes() const;

 private:
  int AddValue(const std::string& name, const Facts& facts, bool batched);
  void AddSource(const std::string& name, SourceKind kind, const BoundTensor& bound, bool live,
                 std::shared_ptr<const HostTensor> initial);
  void BindSources(const std::vector<const GraphNode*>& nodes, const std::string& output);

  // `also`: the same node as it is for the other number of samples. Only an expansion makes them differ.
  absl::Status CompileNode(const GraphNode& node, const GraphNode& also);
  absl::Status AddValuesOf(const GraphNode& node, const GraphNode& also);
  absl::Status AddParts(const GraphNode& node, const GraphNode& also, const InputFacts& in, const InputFacts& in_also);
  absl::StatusOr<bool> AddFolded(const GraphNode& node, const GraphNode& also, const Op& op, const InputFacts& in,
                                 const InputFacts& in_also);
  absl::Status AddNode(const GraphNode& node, std::unique_ptr<Op> op, const InputFacts& in, const InputFacts& in_also,
                       std::vector<Facts> out);
  absl::Status CheckAlso(const Op& op, const InputFacts& in, const InputFacts& in_also,
                         const std::vector<Facts>& out) const;
  InputFacts FactsOf(const GraphNode& node, bool also) const;
  Facts AsAlso(const Facts& facts) const;  // with the other number of samples along the batch axis
  int64_t OpsetOf(const GraphNode& node) const {
    return node.opset_version ? node.opset_version : graph_.opset_version;
  }

  const Graph& graph_;
  const Bindings& bindings_;
  const WalkForm form_;
  SampleProgram program_;
  std::vector<Facts> facts_;
  std::vector<Facts> also_;  // the same for the other number of samples; empty without one
  std::map<std::string, int> by_name_;
};

}  // namespace jacserve::worker
