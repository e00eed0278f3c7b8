// Cases of elementwise functions, softmax and reductions.
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

void AddUnary(std::vector<OpCase>& cases) {
  for (const char* op : {"Abs", "Cos", "Elu", "Erf", "Exp", "Identity", "LeakyRelu", "Neg", "Reciprocal", "Relu",
                         "Sigmoid", "Sin", "Softplus", "Softsign", "Tanh", "Dropout"}) {
    cases.push_back(OpCaseBuilder(op).X({2, 3}).Node(op, {"x"}, "y").Done());
  }
  for (const char* op : {"Log", "Sqrt"}) cases.push_back(OpCaseBuilder(op).X({5}, 1).Node(op, {"x"}, "y").Done());
  cases.push_back(OpCaseBuilder("EluAlpha").X({5}).Node("Elu", {"x"}, "y", {{"alpha", 0.3f}}).Done());
  cases.push_back(
      OpCaseBuilder("UnaryOfWeight").X({4}).W("w", {4}).Node("Tanh", {"w"}, "t").Node("Mul", {"x", "t"}, "y").Done());
  cases.push_back(OpCaseBuilder("CastFloats").X({4}).Node("Cast", {"x"}, "y", {{"to", int64_t{11}}}).Done());
}

void AddBinary(std::vector<OpCase>& cases) {
  for (const char* op : {"Add", "Sub", "Mul", "Div"}) {
    const std::string name = op;
    cases.push_back(OpCaseBuilder(name + "Bias").X({2, 3}).W("b", {3}).Node(op, {"x", "b"}, "y").Done());
    cases.push_back(OpCaseBuilder(name + "ScalarFirst").X({2, 3}).W("b", {}).Node(op, {"b", "x"}, "y").Done());
    cases.push_back(OpCaseBuilder(name + "Column").X({2, 3}).W("b", {1, 2, 1}).Node(op, {"x", "b"}, "y").Done());
    cases.push_back(OpCaseBuilder(name + "WidensX").X({1, 3}).W("b", {4, 1}).Node(op, {"x", "b"}, "y").Done());
    cases.push_back(OpCaseBuilder(name + "TwoInputs").X({2, 3}).Input("z", {2, 1}).Node(op, {"x", "z"}, "y").Done());
    cases.push_back(OpCaseBuilder(name + "Self").X({4}).Node(op, {"x", "x"}, "y").Done());
  }
}

void AddSoftmax(std::vector<OpCase>& cases) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    const std::string name = op;
    cases.push_back(OpCaseBuilder(name).X({2, 4}).Node(op, {"x"}, "y").Done());
    cases.push_back(OpCaseBuilder(name + "MiddleAxis").X({3, 2}).Node(op, {"x"}, "y", {{"axis", int64_t{1}}}).Done());
    cases.push_back(
        OpCaseBuilder(name + "Opset11").Opset(11).X({2, 3}).Node(op, {"x"}, "y", {{"axis", int64_t{1}}}).Done());
  }
}

void AddExpansions(std::vector<OpCase>& cases) {
  cases.push_back(OpCaseBuilder("Celu").X({5}).Node("Celu", {"x"}, "y", {{"alpha", 0.4f}}).Done());
  cases.push_back(OpCaseBuilder("Mish").X({5}).Node("Mish", {"x"}, "y").Done());
}

}  // namespace

void AddElementwiseCases(std::vector<OpCase>& cases) {
  AddUnary(cases);
  AddBinary(cases);
  AddSoftmax(cases);
  AddExpansions(cases);
}

}  // namespace jacserve::worker
