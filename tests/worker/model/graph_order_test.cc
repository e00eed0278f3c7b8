// Nodes in any order come out in one that works, and stay where they are when they are in order.
#include "worker/model/graph_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"

namespace jacserve::worker {
namespace {

// A random acyclic graph over `count` nodes; node i uses values of earlier nodes.
Graph RandomGraph(int count, std::mt19937& random) {
  Graph graph;
  graph.inputs.push_back({.name = "x", .dtype = DType::kFloat32, .shape = {}, .symbols = {}, .has_shape = true});
  std::vector<std::string> values = {"x"};
  for (int i = 0; i < count; ++i) {
    GraphNode node;
    node.name = std::to_string(i);
    node.op_type = "Op";
    for (unsigned uses = random() % 3; uses > 0; --uses) node.inputs.push_back(values[random() % values.size()]);
    node.outputs = {absl::StrCat("v", i)};
    values.push_back(node.outputs[0]);
    graph.nodes.push_back(node);
  }
  return graph;
}

std::vector<std::string> NodeNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const GraphNode& node : graph.nodes) names.push_back(node.name);
  return names;
}

TEST(GraphOrderTest, OrderedNodesStay) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    Graph graph = RandomGraph(20, random);
    const std::vector<std::string> before = NodeNames(graph);
    ASSERT_TRUE(OrderNodes(graph).ok());
    EXPECT_EQ(NodeNames(graph), before);
  }
}

TEST(GraphOrderTest, ShuffledNodesAreOrdered) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    Graph graph = RandomGraph(20, random);
    std::shuffle(graph.nodes.begin(), graph.nodes.end(), random);
    ASSERT_TRUE(OrderNodes(graph).ok());
    ASSERT_EQ(graph.nodes.size(), 20u);
    std::set<std::string> made = {"x"};
    for (const GraphNode& node : graph.nodes) {
      for (const std::string& input : node.inputs) EXPECT_TRUE(made.contains(input));
      made.insert(node.outputs[0]);
    }
  }
}

TEST(GraphOrderTest, CircleIsNamed) {
  Graph graph;
  for (const auto& [from, to] : {std::pair("a", "b"), std::pair("b", "c"), std::pair("c", "a")}) {
    GraphNode node;
    node.name = std::string(from) + to;
    node.op_type = "Op";
    node.inputs = {from};
    node.outputs = {to};
    graph.nodes.push_back(node);
  }
  const absl::Status status = OrderNodes(graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("'ab'"), std::string::npos);
}

}  // namespace
}  // namespace jacserve::worker
