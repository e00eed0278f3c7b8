// The sample program: the network for ONE sample, with shapes known, integers folded and the batch followed through.
// In: a graph and what its inputs are bound to. Out: values and nodes that nothing after this step reads ONNX for.
// Where the samples lie is found with a stand-in for their number; numbers that a graph computes from its shapes are
// those of the batches that are bound.
// The batch axis stays in a sample's shape with size 1 (or what one sample holds of a merged axis): the memory is the
// same as without it, and every operator keeps its own axes, perms and targets.
// A graph that mixes samples (a mean over the batch) is coupled: then the whole batch is the one sample.
// Integers and truth values that are not known yet are computed with as numbers; nothing is differentiable in them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/model/graph.h"
#include "worker/ops/op.h"

namespace jacserve::worker {

struct BoundTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
};

// What the user gave for the graph's inputs and initializers, by name.
struct Bindings {
  std::map<std::string, BoundTensor> weights;
  std::map<std::string, BoundTensor> inputs;  // samples along axis 0
  std::map<std::string, BoundTensor> shared_inputs;
  std::string output;                   // empty: the graph's only one
  std::optional<int64_t> second_batch;  // samples of a pairwise target's second batch
};

struct ProgramValue {
  std::string name;
  DType dtype = DType::kFloat32;  // kFloat32 for floats of any precision
  Shape shape;                    // of one sample
  int64_t elements = 0;
  bool batched = false;  // differs per sample; otherwise shared
  int root = -1;         // the value whose memory this one is (itself, or what it is a reshape of)
  std::shared_ptr<const HostTensor> constant;  // a tensor from the graph, known now
  std::optional<int> source;                   // index into `sources`, for bound inputs and initializers
};

struct ProgramNode {
  std::string name;
  std::string op_type;
  std::unique_ptr<Op> op;
  std::vector<int> inputs;  // value index; -1: left out
  std::vector<int> outputs;
  bool batched = false;  // runs per sample; otherwise once
};

enum class SourceKind { kWeight, kInput, kSharedInput };

// A named tensor that flows in: a bound graph input, or an initializer (a weight with a default value).
struct ProgramSource {
  std::string name;
  SourceKind kind = SourceKind::kWeight;
  DType dtype = DType::kFloat32;
  Shape shape;                                // kInput: of one sample, [1, ...], or of the whole batch
  int value = -1;                             // -1: the output does not depend on it
  std::shared_ptr<const HostTensor> initial;  // the initializer's numbers, unless bound
};

struct SampleProgram {
  std::vector<ProgramValue> values;
  std::vector<ProgramNode> nodes;  // in order; aliases are left out
  std::vector<ProgramSource> sources;
  int output = -1;
  std::string output_name;
  int output_batch_axis = 0;           // in values[output].shape; -1 when coupled
  int64_t output_before_samples = 1;   // of that axis' elements, those that stand before the samples
  bool coupled = false;                // a sample is a whole batch
  std::string coupling;                // when coupled: which node mixes samples, and how
  std::vector<std::string> notices;    // what a user should be told, though it is no error
  bool parameters_are_inputs = false;  // some weight is a graph input: then initializers are constants by default
  std::vector<std::optional<std::pair<int, StridedView>>> views;  // per value: which source it is a view of
};

// InvalidArgument: names, shapes or types that do not fit, in the user's words. Unimplemented: operators without
// rules, all at once.
absl::StatusOr<SampleProgram> CompileSampleProgram(const Graph& graph, const Bindings& bindings);

// The same with nothing batched: the graph runs once for what is bound, and the output may hold integers.
absl::StatusOr<SampleProgram> CompileSharedProgram(const Graph& graph, const Bindings& bindings);

// Nodes that the output depends on, in order. InvalidArgument: no such output.
absl::StatusOr<std::vector<const GraphNode*>> LiveNodes(const Graph& graph, const std::string& output);

}  // namespace jacserve::worker
