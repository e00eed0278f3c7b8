// Operators that are small graphs of others, as ONNX itself defines them: their derivatives follow from the parts'.
// In: a node and what is known of its inputs. Out: nodes of opset kExpansionOpset that compute the same outputs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/ops/op.h"

namespace jacserve::worker {

constexpr int kExpansionOpset = 18;  // of the nodes that stand for an expanded one: axes are inputs

class Expansion {
 public:
  using Names = std::vector<std::string>;
  using Attributes = std::map<std::string, AttributeValue>;

  // `in`: shapes of the whole batch, as for Op::InferShapes. Both outlive the expansion.
  Expansion(const GraphNode& node, const InputFacts& in) : node_(node), in_(in) {}

  const GraphNode& node() const { return node_; }
  const InputFacts& in() const { return in_; }
  // The name of input i, to be an input of a new node. Empty: left out.
  std::string x(size_t i) const { return i < node_.inputs.size() ? node_.inputs[i] : ""; }
  const Shape& shape(size_t i) const { return in_[i].shape; }

  // Adds a node with one output and returns that output's name.
  std::string Add(const std::string& op_type, Names inputs, Attributes attributes = {});
  // Adds a node with several outputs.
  Names AddMany(const std::string& op_type, Names inputs, size_t outputs, Attributes attributes = {});
  std::string Number(double value);               // a scalar
  std::string Ints(std::vector<int64_t> values);  // int64, one axis
  // Makes `value` the node's output k. Does nothing when nobody reads that output.
  void Output(size_t k, const std::string& value);

  std::vector<GraphNode> Finish() { return std::move(nodes_); }

 private:
  const GraphNode& node_;
  const InputFacts& in_;
  std::vector<GraphNode> nodes_;
  int next_ = 0;
};

}  // namespace jacserve::worker
