// Builds the graph and numbers of one OpCase.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/worker/ops/op_cases.h"

namespace jacserve::worker {

using Ints = std::vector<int64_t>;
using Attributes = std::map<std::string, AttributeValue>;

// "x" is the batched input (3 samples), weights are graph inputs, integers are initializers.
class OpCaseBuilder {
 public:
  explicit OpCaseBuilder(std::string name) { case_.name = std::move(name); }

  OpCaseBuilder& Opset(int64_t opset) {
    graph_.opset_version = opset;
    return *this;
  }
  OpCaseBuilder& MixesSamples() {
    case_.mixes_samples = true;
    return *this;
  }
  // `kind`: 0 around zero but not near it, 1 positive, 2 around zero.
  OpCaseBuilder& X(Shape sample, int kind = 0) { return Input("x", std::move(sample), kind); }
  OpCaseBuilder& Input(const std::string& name, Shape sample, int kind = 0);
  // Integers that differ per sample: `values` for all 3 samples. Nothing is differentiated with respect to them.
  OpCaseBuilder& IntInput(const std::string& name, Shape sample, const Ints& values);
  OpCaseBuilder& W(const std::string& name, Shape shape, int kind = 0);
  OpCaseBuilder& I(const std::string& name, const Ints& values);
  // Dot products between two batches, of which the second is like the first.
  OpCaseBuilder& PairwiseDot();
  OpCaseBuilder& F(const std::string& name, const std::vector<float>& values);  // floats that the graph holds
  OpCaseBuilder& Node(const std::string& op, std::vector<std::string> in, const std::string& out,
                      Attributes attributes = {}) {
    return Node(op, std::move(in), std::vector<std::string>{out}, std::move(attributes));
  }
  OpCaseBuilder& Node(const std::string& op, std::vector<std::string> in, std::vector<std::string> out,
                      Attributes attributes = {});
  // The file states this number of samples in the shapes of its inputs.
  OpCaseBuilder& ExportedAt(int64_t samples);
  OpCase Done(const std::string& output = "y");

 private:
  HostTensor Random(const Shape& shape, int kind);

  std::mt19937 generator_{11};
  Graph graph_{.opset_version = 20};
  OpCase case_;
};

}  // namespace jacserve::worker
