// One of ONNX's own operator tests: a model of (mostly) one node, inputs, and the outputs that are right.
// In: a folder as ONNX's test data has them. Out: the graph, and its tensors by name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/engine.h"

namespace jacserve::worker {

struct NodeCase {
  std::string name;
  std::shared_ptr<const Graph> graph;
  std::vector<std::string> claimed;  // operator types of the graph, when the table has all of them
  NamedTensors inputs, outputs;
};

// $JACSERVE_NODE_TESTS, or where Debian puts ONNX's own.
std::filesystem::path NodeTestsRoot();
// Folders below `root` that hold a model, by name.
std::vector<std::filesystem::path> NodeCaseFolders(const std::filesystem::path& root);

// Unimplemented: what the project does not compute with (types, operators, sequences), in words that name it.
absl::StatusOr<NodeCase> LoadNodeCase(const std::filesystem::path& folder);

}  // namespace jacserve::worker
