#include "tests/worker/ops/op_cases.h"

#include <cstring>
#include <functional>
#include <random>

#include "worker/ops/attributes.h"

namespace jacserve::worker {
namespace {

using Ints = std::vector<int64_t>;
using Attributes = std::map<std::string, AttributeValue>;

// Builds one graph: "x" is the batched input (3 samples), weights are graph inputs, integers are initializers.
class Builder {
 public:
  explicit Builder(std::string name) { case_.name = std::move(name); }

  Builder& Opset(int64_t opset) {
    graph_.opset_version = opset;
    return *this;
  }
  // `kind`: 0 around zero but not near it, 1 positive, 2 around zero.
  Builder& X(Shape sample, int kind = 0) { return Input("x", std::move(sample), kind); }
  Builder& Input(const std::string& name, Shape sample, int kind = 0) {
    sample.insert(sample.begin(), 3);
    Shape declared = sample;
    declared[0] = -1;
    graph_.inputs.push_back({name, DType::kFloat32, declared, std::vector<std::string>(declared.size())});
    case_.problem.inputs.emplace_back(name, Random(sample, kind));
    case_.problem.wrt_inputs.push_back(name);
    return *this;
  }
  Builder& W(const std::string& name, Shape shape, int kind = 0) {
    graph_.inputs.push_back({name, DType::kFloat32, shape, std::vector<std::string>(shape.size())});
    case_.problem.weights.emplace_back(name, Random(shape, kind));
    case_.problem.wrt_parameters.push_back(name);
    return *this;
  }
  Builder& I(const std::string& name, Ints values) {
    const auto count = static_cast<int64_t>(values.size());
    graph_.initializers[name] = IntTensor(DType::kInt64, {count}, values);
    return *this;
  }
  Builder& Node(const std::string& op, std::vector<std::string> in, const std::string& out,
                Attributes attributes = {}) {
    graph_.nodes.push_back({"node_" + out, op, "", std::move(in), {out}, std::move(attributes)});
    return *this;
  }
  OpCase Done(const std::string& output = "y") {
    graph_.outputs = {{output, DType::kFloat32, {}, {}, false}};
    case_.graph = case_.problem.graph = std::make_shared<const Graph>(graph_);
    return case_;
  }

 private:
  HostTensor Random(const Shape& shape, int kind) {
    std::uniform_real_distribution<float> magnitude(0.2f, 1.0f);
    auto bytes = std::make_shared<std::vector<std::byte>>(Elements(shape) * sizeof(float));
    for (int64_t p = 0; p < Elements(shape); ++p) {
      float value = magnitude(generator_);
      if (kind != 1 && generator_() % 2 == 0) value = -value;
      std::memcpy(bytes->data() + p * sizeof value, &value, sizeof value);
    }
    return {DType::kFloat32, shape, std::move(bytes)};
  }

  std::mt19937 generator_{11};
  Graph graph_{.opset_version = 20};
  OpCase case_;
};

void AddUnary(std::vector<OpCase>& cases) {
  for (const char* op : {"Abs", "Cos", "Elu", "Erf", "Exp", "Identity", "LeakyRelu", "Neg", "Reciprocal", "Relu",
                         "Sigmoid", "Sin", "Softplus", "Softsign", "Tanh", "Dropout"}) {
    cases.push_back(Builder(op).X({2, 3}).Node(op, {"x"}, "y").Done());
  }
  for (const char* op : {"Log", "Sqrt"}) cases.push_back(Builder(op).X({5}, 1).Node(op, {"x"}, "y").Done());
  cases.push_back(Builder("EluAlpha").X({5}).Node("Elu", {"x"}, "y", {{"alpha", 0.3f}}).Done());
  cases.push_back(
      Builder("UnaryOfWeight").X({4}).W("w", {4}).Node("Tanh", {"w"}, "t").Node("Mul", {"x", "t"}, "y").Done());
  cases.push_back(Builder("CastFloats").X({4}).Node("Cast", {"x"}, "y", {{"to", int64_t{11}}}).Done());
}

void AddBinary(std::vector<OpCase>& cases) {
  for (const char* op : {"Add", "Sub", "Mul", "Div"}) {
    const std::string name = op;
    cases.push_back(Builder(name + "Bias").X({2, 3}).W("b", {3}).Node(op, {"x", "b"}, "y").Done());
    cases.push_back(Builder(name + "ScalarFirst").X({2, 3}).W("b", {}).Node(op, {"b", "x"}, "y").Done());
    cases.push_back(Builder(name + "Column").X({2, 3}).W("b", {1, 2, 1}).Node(op, {"x", "b"}, "y").Done());
    cases.push_back(Builder(name + "WidensX").X({1, 3}).W("b", {4, 1}).Node(op, {"x", "b"}, "y").Done());
    cases.push_back(Builder(name + "TwoInputs").X({2, 3}).Input("z", {2, 1}).Node(op, {"x", "z"}, "y").Done());
    cases.push_back(Builder(name + "Self").X({4}).Node(op, {"x", "x"}, "y").Done());
  }
}

void AddProducts(std::vector<OpCase>& cases) {
  cases.push_back(Builder("MatMul").X({4}).W("w", {4, 3}).Node("MatMul", {"x", "w"}, "y").Done());
  cases.push_back(Builder("MatMulSequence").X({5, 4}).W("w", {4, 3}).Node("MatMul", {"x", "w"}, "y").Done());
  cases.push_back(Builder("MatMulBatched").X({2, 3}).Input("z", {3, 4}).Node("MatMul", {"x", "z"}, "y").Done());
  cases.push_back(
      Builder("MatMulStackOfWeights").X({2, 3, 4}).W("w", {2, 4, 5}).Node("MatMul", {"x", "w"}, "y").Done());
  cases.push_back(Builder("MatMulWeightFirst").X({3, 2}).W("w", {4, 3}).Node("MatMul", {"w", "x"}, "y").Done());
  cases.push_back(Builder("MatMulTransposedWeight")
                      .X({4})
                      .W("w", {3, 4})
                      .Node("Transpose", {"w"}, "t")
                      .Node("MatMul", {"x", "t"}, "y")
                      .Done());
  cases.push_back(Builder("MatMulOfComputedWeight")
                      .X({4})
                      .W("w", {4, 3})
                      .W("g", {3})
                      .Node("Mul", {"w", "g"}, "v")
                      .Node("MatMul", {"x", "v"}, "y")
                      .Done());
  cases.push_back(Builder("WeightTwice")
                      .X({3})
                      .W("w", {3, 3})
                      .Node("MatMul", {"x", "w"}, "h")
                      .Node("Tanh", {"h"}, "t")
                      .Node("MatMul", {"t", "w"}, "y")
                      .Done());
  cases.push_back(Builder("WeightPlainAndComputed")
                      .X({3})
                      .W("w", {3, 3})
                      .Node("MatMul", {"x", "w"}, "h")
                      .Node("Exp", {"w"}, "e")
                      .Node("MatMul", {"h", "e"}, "y")
                      .Done());
  for (const int64_t transpose : {0, 1}) {
    const std::string suffix = transpose ? "Transposed" : "";
    const Shape w = transpose ? Shape{3, 4} : Shape{4, 3};
    cases.push_back(Builder("Gemm" + suffix)
                        .X({4})
                        .W("w", w)
                        .W("c", {3})
                        .Node("Gemm", {"x", "w", "c"}, "y", {{"transB", transpose}})
                        .Done());
    cases.push_back(Builder("GemmScaled" + suffix)
                        .X({4})
                        .W("w", w)
                        .W("c", {1, 3})
                        .Node("Gemm", {"x", "w", "c"}, "y", {{"transB", transpose}, {"alpha", 0.5f}, {"beta", -2.0f}})
                        .Done());
  }
  cases.push_back(Builder("GemmOfTransposedX")
                      .X({4})
                      .W("w", {4, 3})
                      .Node("Transpose", {"x"}, "t")
                      .Node("Gemm", {"t", "w"}, "y", {{"transA", int64_t{1}}})
                      .Done());
  cases.push_back(Builder("GemmWithoutC").X({4}).W("w", {4, 3}).Node("Gemm", {"x", "w"}, "y").Done());
}

void AddWindows(std::vector<OpCase>& cases) {
  const auto conv = [&](const std::string& name, Shape x, Shape w, Attributes attributes, bool bias = true) {
    const Shape b = {w[0]};
    std::vector<std::string> in = {"x", "w"};
    Builder builder(name);
    builder.X(std::move(x)).W("w", std::move(w));
    if (bias) {
      builder.W("b", b);
      in.push_back("b");
    }
    cases.push_back(builder.Node("Conv", in, "y", std::move(attributes)).Done());
  };
  conv("Conv1d", {2, 6}, {3, 2, 3}, {{"pads", Ints{1, 0}}});
  conv("Conv2d", {2, 5, 4}, {3, 2, 3, 2}, {});
  conv("Conv2dStridesPads", {2, 6, 5}, {3, 2, 4, 3}, {{"strides", Ints{2, 3}}, {"pads", Ints{1, 0, 2, 1}}});
  conv("Conv2dDilated", {1, 7, 6}, {2, 1, 3, 2}, {{"dilations", Ints{2, 3}}, {"pads", Ints{1, 1, 1, 1}}});
  conv("Conv2dGroups", {4, 4, 4}, {6, 2, 2, 2}, {{"group", int64_t{2}}});
  conv("Conv2dDepthwise", {3, 4, 4}, {3, 1, 3, 3}, {{"group", int64_t{3}}, {"pads", Ints{1, 1, 1, 1}}}, false);
  conv("Conv2dSameUpper", {2, 5, 6}, {2, 2, 2, 4}, {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 2}}});
  conv("Conv2dSameLower", {2, 5, 6}, {2, 2, 2, 4}, {{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2, 1}}});
  conv("Conv3d", {1, 3, 4, 3}, {2, 1, 2, 2, 2}, {{"pads", Ints{0, 1, 0, 1, 0, 0}}});
  cases.push_back(Builder("ConvHwioKernel")
                      .X({5, 4, 2})
                      .W("w", {3, 2, 2, 3})
                      .Node("Transpose", {"x"}, "t", {{"perm", Ints{0, 3, 1, 2}}})
                      .Node("Transpose", {"w"}, "k", {{"perm", Ints{3, 2, 0, 1}}})
                      .Node("Conv", {"t", "k"}, "y", {{"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 1}}})
                      .Done());
  cases.push_back(Builder("ConvHwioGroups")
                      .X({4, 4, 4})
                      .W("w", {2, 2, 2, 6})
                      .Node("Transpose", {"w"}, "k", {{"perm", Ints{3, 2, 0, 1}}})
                      .Node("Conv", {"x", "k"}, "y", {{"group", int64_t{2}}})
                      .Done());
  cases.push_back(Builder("ConvKernelTwice")
                      .X({2, 5, 5})
                      .W("w", {2, 2, 3, 3})
                      .Node("Conv", {"x", "w"}, "h", {{"pads", Ints{1, 1, 1, 1}}})
                      .Node("Tanh", {"h"}, "t")
                      .Node("Conv", {"t", "w"}, "y")
                      .Done());
  cases.push_back(Builder("ConvOfComputedKernel")
                      .X({2, 4, 4})
                      .W("w", {2, 2, 3, 3})
                      .W("g", {2, 1, 1, 1})
                      .Node("Mul", {"w", "g"}, "k")
                      .Node("Conv", {"x", "k"}, "y")
                      .Done());
  cases.push_back(Builder("MaxPool")
                      .X({2, 4, 6})
                      .Node("MaxPool", {"x"}, "y", {{"kernel_shape", Ints{2, 3}}, {"strides", Ints{2, 2}}})
                      .Done());
  cases.push_back(Builder("MaxPoolPadsCeil")
                      .X({1, 5, 5})
                      .Node("MaxPool", {"x"}, "y",
                            {{"kernel_shape", Ints{3, 2}},
                             {"strides", Ints{2, 2}},
                             {"pads", Ints{1, 0, 1, 1}},
                             {"ceil_mode", int64_t{1}}})
                      .Done());
}

void AddShapes(std::vector<OpCase>& cases) {
  cases.push_back(Builder("Reshape").X({2, 6}).I("s", {-1, 4, 3}).Node("Reshape", {"x", "s"}, "y").Done());
  cases.push_back(Builder("ReshapeMergesBatch")
                      .X({2, 3})
                      .W("w", {3, 2})
                      .I("s", {-1, 3})
                      .I("t", {-1, 4})
                      .Node("Reshape", {"x", "s"}, "f")
                      .Node("MatMul", {"f", "w"}, "h")
                      .Node("Reshape", {"h", "t"}, "y")
                      .Done());
  cases.push_back(Builder("Flatten").X({2, 3, 2}).Node("Flatten", {"x"}, "y").Done());
  cases.push_back(Builder("SqueezeUnsqueeze")
                      .X({1, 3})
                      .I("a", {1})
                      .I("b", {2, 0})
                      .Node("Squeeze", {"x", "a"}, "s")
                      .Node("Unsqueeze", {"s", "b"}, "y")
                      .Done());
  cases.push_back(
      Builder("SqueezeByAttribute").Opset(11).X({1, 3}).Node("Squeeze", {"x"}, "y", {{"axes", Ints{1}}}).Done());
  cases.push_back(Builder("Transpose").X({2, 3, 4}).Node("Transpose", {"x"}, "y", {{"perm", Ints{2, 0, 3, 1}}}).Done());
  cases.push_back(Builder("ExpandWeight")
                      .X({2, 3})
                      .W("w", {3})
                      .I("s", {2, 3})
                      .Node("Expand", {"w", "s"}, "e")
                      .Node("Mul", {"x", "e"}, "y")
                      .Done());
  cases.push_back(Builder("ExpandX").X({1, 3}).I("s", {1, 2, 3}).Node("Expand", {"x", "s"}, "y").Done());
  cases.push_back(Builder("Concat")
                      .X({2, 3})
                      .Input("z", {2, 2})
                      .Node("Concat", {"x", "z", "x"}, "y", {{"axis", int64_t{-1}}})
                      .Done());
  cases.push_back(Builder("Slice")
                      .X({5, 4})
                      .I("a", {1, 3})
                      .I("b", {5, 0})
                      .I("c", {1, 2})
                      .I("d", {2, -1})
                      .Node("Slice", {"x", "a", "b", "c", "d"}, "y")
                      .Done());
  cases.push_back(Builder("SliceByAttribute")
                      .Opset(9)
                      .X({5})
                      .Node("Slice", {"x"}, "y", {{"starts", Ints{1}}, {"ends", Ints{-1}}, {"axes", Ints{1}}})
                      .Done());
  cases.push_back(
      Builder("Gather").X({4, 2}).I("i", {3, 0, 3, -2}).Node("Gather", {"x", "i"}, "y", {{"axis", int64_t{1}}}).Done());
  cases.push_back(Builder("ReduceSum")
                      .X({2, 3, 2})
                      .I("a", {1, -1})
                      .Node("ReduceSum", {"x", "a"}, "y", {{"keepdims", int64_t{0}}})
                      .Done());
  cases.push_back(Builder("ReduceMeanKeep").X({2, 3}).I("a", {2}).Node("ReduceMean", {"x", "a"}, "y").Done());
  cases.push_back(Builder("FlattenByShapeArithmetic")
                      .X({2, 3, 2})
                      .I("zero", {0})
                      .I("one", {1})
                      .I("rest", {12})
                      .Node("Shape", {"x"}, "s")
                      .Node("Slice", {"s", "zero", "one", "zero"}, "n")
                      .Node("Cast", {"n"}, "n32", {{"to", int64_t{6}}})
                      .Node("Cast", {"n32"}, "n64", {{"to", int64_t{7}}})
                      .Node("Concat", {"n64", "rest"}, "t", {{"axis", int64_t{0}}})
                      .Node("Reshape", {"x", "t"}, "y")
                      .Done());
}

void AddSoftmax(std::vector<OpCase>& cases) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    const std::string name = op;
    cases.push_back(Builder(name).X({2, 4}).Node(op, {"x"}, "y").Done());
    cases.push_back(Builder(name + "MiddleAxis").X({3, 2}).Node(op, {"x"}, "y", {{"axis", int64_t{1}}}).Done());
    cases.push_back(Builder(name + "Opset11").Opset(11).X({2, 3}).Node(op, {"x"}, "y", {{"axis", int64_t{1}}}).Done());
  }
}

}  // namespace

std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> cases;
  AddUnary(cases);
  AddBinary(cases);
  AddProducts(cases);
  AddWindows(cases);
  AddShapes(cases);
  AddSoftmax(cases);
  return cases;
}

}  // namespace jacserve::worker
