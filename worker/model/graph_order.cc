#include "worker/model/graph_order.h"

#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace jacserve::worker {
namespace {

constexpr int kNoNode = -1;  // an input or initializer

using MakerOf = std::unordered_map<std::string_view, int>;

absl::Status AddMaker(std::string_view value, int node, MakerOf& makers) {
  if (makers.emplace(value, node).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the graph: the value '", std::string(value), "' is made more than once"));
}

absl::StatusOr<MakerOf> FindMakers(const Graph& graph) {
  MakerOf makers;
  for (const GraphValue& input : graph.inputs) RETURN_IF_ERROR(AddMaker(input.name, kNoNode, makers));
  for (const auto& [name, tensor] : graph.initializers) RETURN_IF_ERROR(AddMaker(name, kNoNode, makers));
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::string& output : graph.nodes[i].outputs) {
      if (!output.empty()) RETURN_IF_ERROR(AddMaker(output, static_cast<int>(i), makers));
    }
  }
  return makers;
}

// Per node, how many of its inputs other nodes make, and who waits for it.
struct Dependencies {
  std::vector<int> waits_for;
  std::vector<std::vector<int>> users;
};

absl::StatusOr<Dependencies> FindDependencies(const Graph& graph, const MakerOf& makers) {
  Dependencies result{std::vector<int>(graph.nodes.size(), 0), std::vector<std::vector<int>>(graph.nodes.size())};
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    for (const std::string& input : node.inputs) {
      if (input.empty()) continue;
      const auto maker = makers.find(input);
      if (maker == makers.end()) {
        return absl::InvalidArgumentError(absl::StrCat("the graph: node '", node.name, "' (", node.op_type,
                                                       ") uses the value '", input, "', which nothing makes"));
      }
      if (maker->second == kNoNode) continue;
      ++result.waits_for[i];
      result.users[maker->second].push_back(static_cast<int>(i));
    }
  }
  return result;
}

}  // namespace

absl::Status OrderNodes(Graph& graph) {
  ASSIGN_OR_RETURN(const MakerOf makers, FindMakers(graph));
  for (const GraphValue& output : graph.outputs) {
    if (!makers.contains(output.name)) {
      return absl::InvalidArgumentError(absl::StrCat("the graph: nothing makes its output '", output.name, "'"));
    }
  }
  ASSIGN_OR_RETURN(Dependencies dependencies, FindDependencies(graph, makers));

  // The smallest ready place first, so that what is in order stays as it is.
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (dependencies.waits_for[i] == 0) ready.push(static_cast<int>(i));
  }
  std::vector<GraphNode> ordered;
  ordered.reserve(graph.nodes.size());
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    for (int user : dependencies.users[node]) {
      if (--dependencies.waits_for[user] == 0) ready.push(user);
    }
    ordered.push_back(std::move(graph.nodes[node]));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (dependencies.waits_for[i] > 0) {
      return absl::InvalidArgumentError(absl::StrCat("the graph: node '", graph.nodes[i].name, "' (",
                                                     graph.nodes[i].op_type,
                                                     ") is one of a circle: what it uses is made from what it makes"));
    }
  }
  graph.nodes = std::move(ordered);
  return absl::OkStatus();
}

}  // namespace jacserve::worker
