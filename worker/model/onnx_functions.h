// Calls of functions that the file itself defines are replaced by the functions' nodes.
// In: the functions of a model and nodes as read. Out: nodes of operators only, their names made unique.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "onnx/onnx_pb.h"
#include "worker/model/graph.h"
#include "worker/model/onnx_import.h"
#include "worker/model/onnx_node.h"

namespace jacserve::worker {

class FunctionInliner {
 public:
  // Both outlive the inliner; tensors are moved out of `model`.
  FunctionInliner(onnx::ModelProto& model, const ImportLimits& limits) : model_(model), limits_(limits) {}

  // InvalidArgument: a function given twice.
  absl::Status Read();

  // Appends `node`, or what it calls, to `nodes`.
  // InvalidArgument: a function that calls itself, over a limit of nodes or nesting, more inputs or outputs than the
  // function has. Unimplemented: a function written for another version of an operator set than ai.onnx.
  absl::Status Append(ReadNodeResult node, std::vector<GraphNode>& nodes);

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // domain, name, overload
  struct Function {
    onnx::FunctionProto* proto = nullptr;
    bool read = false;  // the rest is filled at the first call
    std::vector<ReadNodeResult> nodes;
    std::map<std::string, AttributeValue> defaults;
    int64_t opset_version = 0;
  };

  absl::Status ReadBody(Function& function);
  absl::Status ReadDefaults(Function& function, const std::string& what);
  absl::Status ReadOpsets(Function& function, const std::string& what);
  absl::Status Inline(const GraphNode& call, const Function& function, std::vector<GraphNode>& nodes);

  onnx::ModelProto& model_;
  const ImportLimits& limits_;
  std::map<Key, Function> functions_;
  std::set<Key> open_;  // the calls that lead to the present one
  int64_t calls_ = 0, fields_ = 0;
};

}  // namespace jacserve::worker
