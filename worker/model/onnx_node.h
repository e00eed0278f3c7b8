// An ONNX node -> GraphNode: names checked, attributes as plain values.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "worker/model/graph.h"
#include "worker/model/onnx_import.h"

namespace jacserve::worker {

struct ReadNodeResult {
  GraphNode node;
  std::map<std::string, std::string> references;  // attributes that take the value of one of the function around
  std::string overload;                           // of the function that the node calls
};

// `index` is the node's place in the file; it names a node that has no name. Tensors are moved out of `node`.
// InvalidArgument: over a limit, no operator, an attribute twice or without a value of its type.
// Unimplemented: an attribute that holds a subgraph, a sparse tensor or a type.
absl::StatusOr<ReadNodeResult> ReadNode(int index, onnx::NodeProto& node, const ImportLimits& limits);

// `what` says whose value it is. The same errors.
absl::StatusOr<AttributeValue> ReadAttribute(const std::string& what, onnx::AttributeProto& attribute,
                                             const ImportLimits& limits);

// "ai.onnx" and "" are the same domain.
std::string CanonicalDomain(const std::string& domain);

}  // namespace jacserve::worker
