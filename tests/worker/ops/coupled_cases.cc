// Graphs that mix the samples of a batch: the whole batch is then one sample.
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

// x - mean over the batch, times w.
OpCaseBuilder Centred(const std::string& name) {
  OpCaseBuilder builder(name);
  builder.MixesSamples()
      .X({4})
      .W("w", {4, 2})
      .I("axis", {0})
      .Node("ReduceMean", {"x", "axis"}, "m")
      .Node("Sub", {"x", "m"}, "c");
  builder.Node("MatMul", {"c", "w"}, "y");
  return builder;
}

}  // namespace

void AddCoupledCases(std::vector<OpCase>& cases) {
  cases.push_back(Centred("CoupledMean").Done());
  cases.push_back(Centred("CoupledMeanPairwise").PairwiseDot().Done());
  cases.push_back(OpCaseBuilder("CoupledReshape")
                      .MixesSamples()
                      .X({4})
                      .I("s", {2, 6})
                      .Node("Reshape", {"x", "s"}, "r")
                      .Node("Tanh", {"r"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("CoupledScalar")
                      .MixesSamples()
                      .X({4})
                      .Node("Tanh", {"x"}, "t")
                      .Node("ReduceSum", {"t"}, "y", {{"keepdims", int64_t{0}}})
                      .Done());
  cases.push_back(OpCaseBuilder("CoupledGram")
                      .MixesSamples()
                      .X({4})
                      .Node("Transpose", {"x"}, "t")
                      .Node("MatMul", {"x", "t"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("CoupledOrders")
                      .MixesSamples()
                      .X({2, 3})
                      .I("s", {-1, 3})
                      .Node("Transpose", {"x"}, "t", {{"perm", Ints{1, 0, 2}}})
                      .Node("Reshape", {"t", "s"}, "a")
                      .Node("Reshape", {"x", "s"}, "b")
                      .Node("Mul", {"a", "b"}, "y")
                      .Done());
  cases.push_back(
      OpCaseBuilder("CoupledWeightPerSample").MixesSamples().X({2}).W("w", {3, 2}).Node("Mul", {"x", "w"}, "y").Done());
}

}  // namespace jacserve::worker
