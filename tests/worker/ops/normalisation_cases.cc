// Cases of normalisation: per layer, channel, group, batch and norm.
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

using Names = std::vector<std::string>;

void AddLayers(std::vector<OpCase>& cases) {
  const auto layer = [&](const std::string& name, Shape x, Shape parameter, Attributes attributes, bool bias = true) {
    OpCaseBuilder builder(name);
    builder.X(std::move(x)).W("g", parameter);
    if (bias) builder.W("b", parameter);
    const Names in = bias ? Names{"x", "g", "b"} : Names{"x", "g"};
    cases.push_back(builder.Node("LayerNormalization", in, "y", std::move(attributes)).Done());
  };
  layer("LayerNormalization", {5}, {5}, {});
  layer("LayerNormalizationSequence", {3, 19}, {19}, {{"epsilon", 0.1f}});
  layer("LayerNormalizationTwoAxes", {2, 3, 4}, {3, 4}, {{"axis", int64_t{2}}});
  layer("LayerNormalizationNoBias", {2, 4}, {4}, {{"axis", int64_t{-1}}}, false);
  layer("LayerNormalizationScalarScale", {2, 4}, {1}, {});
  layer("LayerNormalizationColumnScale", {2, 3, 4}, {3, 1}, {{"axis", int64_t{-2}}});
  cases.push_back(OpCaseBuilder("LayerNormalizationDifferentBias")
                      .X({2, 4})
                      .W("g", {4})
                      .W("b", {1})
                      .Node("LayerNormalization", {"x", "g", "b"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("LayerNormalizationStatistics")
                      .X({2, 4})
                      .W("g", {4})
                      .W("b", {4})
                      .Node("LayerNormalization", {"x", "g", "b"}, {"n", "mean", "rstd"})
                      .Node("Mul", {"n", "mean"}, "p")
                      .Node("Add", {"p", "rstd"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("LayerNormalizationOfTransposedScale")
                      .X({2, 3})
                      .W("g", {3, 2})
                      .Node("Transpose", {"g"}, "t")
                      .Node("LayerNormalization", {"x", "t"}, "y", {{"axis", int64_t{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("LayerNormalizationOverTheBatch")
                      .MixesSamples()
                      .X({4})
                      .W("g", {4})
                      .W("b", {4})
                      .Node("LayerNormalization", {"x", "g", "b"}, "y", {{"axis", int64_t{0}}})
                      .Done());
  cases.push_back(OpCaseBuilder("RMSNormalization")
                      .Opset(23)
                      .X({2, 5})
                      .W("g", {5})
                      .Node("RMSNormalization", {"x", "g"}, "y", {{"epsilon", 0.01f}})
                      .Done());
}

void AddChannels(std::vector<OpCase>& cases) {
  const auto channels = [&](const std::string& name, const char* op, int64_t opset, Shape x, int64_t parameters,
                            Attributes attributes) {
    cases.push_back(OpCaseBuilder(name)
                        .Opset(opset)
                        .X(std::move(x))
                        .W("g", {parameters})
                        .W("b", {parameters})
                        .Node(op, {"x", "g", "b"}, "y", std::move(attributes))
                        .Done());
  };
  channels("InstanceNormalization", "InstanceNormalization", 20, {2, 3, 4}, 2, {});
  channels("InstanceNormalization1d", "InstanceNormalization", 6, {3, 5}, 3, {{"epsilon", 0.1f}});
  channels("GroupNormalization", "GroupNormalization", 21, {4, 3, 2}, 4, {{"num_groups", int64_t{2}}});
  channels("GroupNormalizationPerGroup", "GroupNormalization", 18, {4, 3, 2}, 2, {{"num_groups", int64_t{2}}});
}

void AddBatch(std::vector<OpCase>& cases) {
  const auto batch = [&](const std::string& name, int64_t opset, Shape x, Shape parameter, Attributes attributes = {}) {
    cases.push_back(OpCaseBuilder(name)
                        .Opset(opset)
                        .X(std::move(x))
                        .W("g", parameter)
                        .W("b", parameter)
                        .W("m", parameter)
                        .W("v", parameter, 1)
                        .Node("BatchNormalization", {"x", "g", "b", "m", "v"}, "y", std::move(attributes))
                        .Done());
  };
  batch("BatchNormalization", 15, {3, 2, 4}, {3});
  batch("BatchNormalizationOfVector", 9, {4}, {4}, {{"epsilon", 0.2f}});
  batch("BatchNormalizationNotSpatial", 7, {2, 3}, {2, 3}, {{"spatial", int64_t{0}}});
  cases.push_back(OpCaseBuilder("BatchNormalizationTraining")
                      .MixesSamples()
                      .X({2, 3, 2})
                      .W("g", {2})
                      .W("b", {2})
                      .F("m", {0, 1})
                      .Node("BatchNormalization", {"x", "g", "b", "m", "m"}, "n", {{"training_mode", int64_t{1}}})
                      .W("c", {2, 1, 1})
                      .Node("Mul", {"n", "c"}, "y")
                      .Done());
}

void AddNorms(std::vector<OpCase>& cases) {
  cases.push_back(OpCaseBuilder("LRN")
                      .X({5, 2, 3})
                      .Node("LRN", {"x"}, "y", {{"size", int64_t{3}}, {"alpha", 0.7f}, {"bias", 2.0f}})
                      .Done());
  cases.push_back(OpCaseBuilder("LRNEvenSize")
                      .X({4, 2})
                      .Node("LRN", {"x"}, "y", {{"size", int64_t{4}}, {"alpha", 0.7f}, {"beta", 0.5f}, {"bias", 1.5f}})
                      .Done());
  for (const int64_t p : {1, 2}) {
    cases.push_back(OpCaseBuilder("LpNormalization" + std::to_string(p))
                        .X({3, 4})
                        .Node("LpNormalization", {"x"}, "y", {{"p", p}, {"axis", int64_t{1}}})
                        .Done());
  }
  cases.push_back(OpCaseBuilder("MeanVarianceNormalization")
                      .X({2, 3, 2})
                      .Node("MeanVarianceNormalization", {"x"}, "y", {{"axes", Ints{1, 2, 3}}})
                      .Done());
  cases.push_back(OpCaseBuilder("MeanVarianceNormalizationOverTheBatch")
                      .MixesSamples()
                      .X({2, 2, 2})
                      .Node("MeanVarianceNormalization", {"x"}, "y")
                      .Done());
  // GroupNorm as exporters write it: instances of groups, then weights that are cast like the activation.
  cases.push_back(OpCaseBuilder("GroupNormOfInstances")
                      .X({4, 2, 2})
                      .W("w", {4, 1, 1})
                      .W("b", {4, 1, 1})
                      .F("one", {1, 1})
                      .F("zero", {0, 0})
                      .I("groups", {0, 2, -1})
                      .Node("Shape", {"x"}, "shape")
                      .Node("Reshape", {"x", "groups"}, "g")
                      .Node("InstanceNormalization", {"g", "one", "zero"}, "n")
                      .Node("Reshape", {"n", "shape"}, "a")
                      .Node("CastLike", {"w", "a"}, "wa")
                      .Node("Mul", {"a", "wa"}, "m")
                      .Node("CastLike", {"b", "m"}, "bm")
                      .Node("Add", {"m", "bm"}, "y")
                      .Done());
}

}  // namespace

void AddNormalisationCases(std::vector<OpCase>& cases) {
  AddLayers(cases);
  AddChannels(cases);
  AddBatch(cases);
  AddNorms(cases);
}

}  // namespace jacserve::worker
