// Cases of activations, softmax and losses.
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

constexpr int kPositive = 1;

void AddActivations(std::vector<OpCase>& cases) {
  for (const char* op : {"Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Relu", "Selu",
                         "Shrink", "Sigmoid", "Softplus", "Softsign", "Tanh", "ThresholdedRelu"}) {
    cases.push_back(OpCaseBuilder(op).X({3, 7}).Node(op, {"x"}, "y").Done());
  }
  cases.push_back(OpCaseBuilder("SwishOperator").Opset(24).X({7}).Node("Swish", {"x"}, "y", {{"alpha", 0.7f}}).Done());
  cases.push_back(OpCaseBuilder("SwiGLU").Opset(28).X({7}).Input("b", {7}).Node("SwiGLU", {"x", "b"}, "y").Done());
  const auto with = [&](const std::string& name, const std::string& op, Attributes attributes) {
    cases.push_back(OpCaseBuilder(name).X({11}).Node(op, {"x"}, "y", std::move(attributes)).Done());
  };
  with("CeluAlpha", "Celu", {{"alpha", 0.4f}});
  with("EluAlpha", "Elu", {{"alpha", 0.3f}});
  with("GeluTanh", "Gelu", {{"approximate", std::string("tanh")}});
  with("HardSigmoidSteep", "HardSigmoid", {{"alpha", 1.3f}, {"beta", 0.4f}});
  with("LeakyReluAlpha", "LeakyRelu", {{"alpha", 0.3f}});
  with("SeluGamma", "Selu", {{"alpha", 0.7f}, {"gamma", 2.0f}});
  with("ShrinkBias", "Shrink", {{"lambd", 0.45f}, {"bias", 0.2f}});
  with("ThresholdedReluAlpha", "ThresholdedRelu", {{"alpha", 0.45f}});
  cases.push_back(OpCaseBuilder("HardSwishWide")  // beyond the kinks at 3
                      .X({12})
                      .I("six", {6})
                      .Node("CastLike", {"six", "x"}, "f")
                      .Node("Mul", {"x", "f"}, "s")
                      .Node("HardSwish", {"s"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("Swish").X({6}).Node("Sigmoid", {"x"}, "s").Node("Mul", {"x", "s"}, "y").Done());
}

void AddClip(std::vector<OpCase>& cases) {
  cases.push_back(OpCaseBuilder("Clip").X({12}).Node("Clip", {"x"}, "y").Done());
  cases.push_back(OpCaseBuilder("ClipByAttributes")
                      .Opset(6)
                      .X({12})
                      .Node("Clip", {"x"}, "y", {{"min", -0.55f}, {"max", 0.45f}})
                      .Done());
  cases.push_back(OpCaseBuilder("ClipByConstants")
                      .X({12})
                      .Node("Constant", {}, "low", {{"value_float", -0.55f}})
                      .Node("Constant", {}, "high", {{"value_float", 0.45f}})
                      .Node("Clip", {"x", "low", "high"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("ClipByWeights")
                      .X({12})
                      .W("a", {}, kPositive)
                      .W("high", {}, kPositive)
                      .Node("Neg", {"a"}, "low")
                      .Node("Clip", {"x", "low", "high"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("ClipLow").X({12}).W("low", {}, kPositive).Node("Clip", {"x", "low"}, "y").Done());
  cases.push_back(OpCaseBuilder("ClipHigh").X({12}).W("high", {}).Node("Clip", {"x", "", "high"}, "y").Done());
}

void AddSoftmax(std::vector<OpCase>& cases) {
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    const std::string name = op;
    const auto add = [&](const std::string& suffix, int64_t opset, Shape shape, Attributes attributes) {
      OpCaseBuilder builder(name + suffix);
      builder.Opset(opset).X(std::move(shape)).Node(op, {"x"}, "s", std::move(attributes));
      // Hardmax by itself has no derivative.
      cases.push_back(builder.Node(name == "Hardmax" ? "Mul" : "Add", {"s", "x"}, "y").Done());
    };
    add("", 20, {2, 4}, {});
    add("MiddleAxis", 20, {3, 2}, {{"axis", int64_t{1}}});
    add("Long", 20, {1, 37}, {{"axis", int64_t{-1}}});
    add("Opset11", 11, {2, 3}, {{"axis", int64_t{1}}});
  }
}

}  // namespace

void AddLosses(std::vector<OpCase>& cases) {
  const Attributes each = {{"reduction", std::string("none")}}, sum = {{"reduction", std::string("sum")}};
  const auto builder = [](const std::string& name) {
    return OpCaseBuilder(name).X({4, 2}).IntInput("t", {2}, {3, 0, 1, 2, 2, 3});
  };
  cases.push_back(builder("NegativeLogLikelihoodLoss").Node("NegativeLogLikelihoodLoss", {"x", "t"}, "y", each).Done());
  Attributes ignoring = each;
  ignoring["ignore_index"] = int64_t{2};
  cases.push_back(builder("NegativeLogLikelihoodLossIgnores")
                      .W("w", {4}, 1)
                      .Node("NegativeLogLikelihoodLoss", {"x", "t", "w"}, "y", ignoring)
                      .Done());
  cases.push_back(builder("SoftmaxCrossEntropyLoss").Node("SoftmaxCrossEntropyLoss", {"x", "t"}, "y", each).Done());
  cases.push_back(builder("SoftmaxCrossEntropyLossSum")
                      .MixesSamples()
                      .Node("SoftmaxCrossEntropyLoss", {"x", "t"}, "y", sum)
                      .Done());
  cases.push_back(builder("SoftmaxCrossEntropyLossWeightedMean")
                      .MixesSamples()
                      .W("w", {4}, 1)
                      .Node("SoftmaxCrossEntropyLoss", {"x", "t", "w"}, "y", {{"ignore_index", int64_t{3}}})
                      .Done());
}

void AddActivationCases(std::vector<OpCase>& cases) {
  AddLosses(cases);
  AddActivations(cases);
  AddClip(cases);
  AddSoftmax(cases);
}

}  // namespace jacserve::worker
