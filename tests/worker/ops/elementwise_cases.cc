// Cases of elementwise functions of one, two and three inputs, and of casts.
#include <limits>

#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

constexpr int kPositive = 1;

void AddUnary(std::vector<OpCase>& cases) {
  for (const char* op : {"Abs", "Atan", "Cos", "Cosh", "Erf", "Exp", "Identity", "Neg", "Reciprocal", "Sin", "Sinh",
                         "Asinh", "Tan", "Dropout"}) {
    cases.push_back(OpCaseBuilder(op).X({2, 3}).Node(op, {"x"}, "y").Done());
  }
  for (const char* op : {"Log", "Sqrt"}) {
    cases.push_back(OpCaseBuilder(op).X({19}, kPositive).Node(op, {"x"}, "y").Done());
  }
  for (const char* op : {"Acos", "Asin", "Atanh"}) {  // within (-1, 1)
    cases.push_back(OpCaseBuilder(op).X({5}).Node("Tanh", {"x"}, "t").Node(op, {"t"}, "y").Done());
  }
  cases.push_back(OpCaseBuilder("Acosh").X({5}, kPositive).Node("Exp", {"x"}, "e").Node("Acosh", {"e"}, "y").Done());
  for (const char* op : {"Ceil", "Floor", "Round", "Sign"}) {  // whose own derivative is 0
    cases.push_back(
        OpCaseBuilder(op).X({7}).Node("Exp", {"x"}, "e").Node(op, {"e"}, "f").Node("Mul", {"f", "x"}, "y").Done());
  }
  cases.push_back(
      OpCaseBuilder("UnaryOfWeight").X({4}).W("w", {4}).Node("Tanh", {"w"}, "t").Node("Mul", {"x", "t"}, "y").Done());
  cases.push_back(OpCaseBuilder("SavedSlopeOfWeight")
                      .X({4})
                      .W("w", {4})
                      .Node("Erf", {"w"}, "t")
                      .Node("Mul", {"x", "t"}, "y")
                      .Done());
}

void AddBinary(std::vector<OpCase>& cases) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min"}) {
    const std::string name = op;
    cases.push_back(OpCaseBuilder(name + "Bias").X({2, 3}).W("b", {3}).Node(op, {"x", "b"}, "y").Done());
    cases.push_back(OpCaseBuilder(name + "ScalarFirst").X({2, 3}).W("b", {}).Node(op, {"b", "x"}, "y").Done());
    cases.push_back(OpCaseBuilder(name + "Column").X({2, 3}).W("b", {1, 2, 1}).Node(op, {"x", "b"}, "y").Done());
    cases.push_back(OpCaseBuilder(name + "WidensX").X({1, 3}).W("b", {4, 1}).Node(op, {"x", "b"}, "y").Done());
    cases.push_back(OpCaseBuilder(name + "TwoInputs").X({2, 3}).Input("z", {2, 1}).Node(op, {"x", "z"}, "y").Done());
    cases.push_back(OpCaseBuilder(name + "Long")
                        .X({2, 530})
                        .W("b", {2, 1})
                        .I("a", {1, 2})
                        .Node(op, {"x", "b"}, "h")
                        .Node("ReduceMean", {"h", "a"}, "y")
                        .Done());
    if (name == "Max" || name == "Min") continue;  // a kink everywhere
    cases.push_back(OpCaseBuilder(name + "OneNumber").X({1}).W("b", {}).Node(op, {"x", "b"}, "y").Done());
    cases.push_back(OpCaseBuilder(name + "Self").X({4}).Node(op, {"x", "x"}, "y").Done());
  }
  cases.push_back(OpCaseBuilder("AddTransposedWeight")
                      .X({3, 2})
                      .W("b", {2, 3})
                      .Node("Transpose", {"b"}, "t")
                      .Node("Add", {"x", "t"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("Pow").X({2, 3}, kPositive).W("b", {3}).Node("Pow", {"x", "b"}, "y").Done());
  cases.push_back(OpCaseBuilder("PowTwoInputs").X({5}, kPositive).Input("z", {5}).Node("Pow", {"x", "z"}, "y").Done());
  for (const int64_t exponent : {0, 1, 2, 3, -1}) {  // also of negative numbers
    cases.push_back(OpCaseBuilder("PowInteger" + std::to_string(exponent + 1))
                        .X({2, 3})
                        .I("n", {exponent})
                        .Node("Pow", {"x", "n"}, "p")
                        .Node("Mul", {"p", "x"}, "y")
                        .Done());
  }
  cases.push_back(OpCaseBuilder("PRelu").X({2, 3}).W("s", {3}).Node("PRelu", {"x", "s"}, "y").Done());
  cases.push_back(OpCaseBuilder("PReluChannels").X({4, 3, 2}).W("s", {4}).Node("PRelu", {"x", "s"}, "y").Done());
  cases.push_back(OpCaseBuilder("PReluOpset6").Opset(6).X({3, 3}).W("s", {3}).Node("PRelu", {"x", "s"}, "y").Done());
  cases.push_back(OpCaseBuilder("FloorModOfFloats").Opset(28).X({6}).W("b", {1}).Node("Mod", {"x", "b"}, "y").Done());
  cases.push_back(
      OpCaseBuilder("ModOfFloats").X({6}).W("b", {1}).Node("Mod", {"x", "b"}, "y", {{"fmod", int64_t{1}}}).Done());
  for (const char* op : {"Max", "Min", "Sum", "Mean"}) {
    cases.push_back(OpCaseBuilder(std::string(op) + "OfThree")
                        .X({2, 3})
                        .W("b", {3})
                        .Input("z", {2, 1})
                        .Node(op, {"x", "b", "z"}, "y")
                        .Done());
    cases.push_back(OpCaseBuilder(std::string(op) + "OfOne").X({2, 3}).Node(op, {"x"}, "y").Done());
  }
}

void AddTruths(std::vector<OpCase>& cases) {
  for (const char* op : {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"}) {
    cases.push_back(OpCaseBuilder(std::string(op) + "Where")
                        .X({2, 3})
                        .W("b", {3})
                        .Node(op, {"x", "b"}, "c")
                        .Node("Where", {"c", "x", "b"}, "y")
                        .Done());
  }
  for (const char* op : {"And", "Or", "Xor"}) {
    cases.push_back(OpCaseBuilder(std::string(op) + "OfComparisons")
                        .X({2, 3})
                        .W("b", {3})
                        .Input("z", {2, 1})
                        .Node("Less", {"x", "b"}, "c")
                        .Node("Greater", {"x", "z"}, "d")
                        .Node(op, {"c", "d"}, "e")
                        .Node("Not", {"e"}, "n")
                        .Node("Where", {"n", "z", "x"}, "s")
                        .Node("Mul", {"s", "b"}, "y")
                        .Done());
  }
  cases.push_back(OpCaseBuilder("WhereSharedCondition")
                      .X({2, 3})
                      .W("w", {3})
                      .I("i", {1, 0, 5})
                      .Node("Cast", {"i"}, "c", {{"to", int64_t{9}}})
                      .Node("Where", {"c", "x", "w"}, "y")
                      .Done());
  // log of a negative number is NaN where it is not selected.
  cases.push_back(OpCaseBuilder("WhereLeavesOutNaN")
                      .X({6})
                      .W("w", {6})
                      .Node("Log", {"x"}, "l")
                      .Node("IsNaN", {"l"}, "c")
                      .Node("Where", {"c", "w", "w"}, "s")
                      .Node("Mul", {"s", "x"}, "y")
                      .Done());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  cases.push_back(OpCaseBuilder("IsInf")
                      .X({6})
                      .W("w", {6})
                      .Node("Constant", {}, "high", {{"value_float", kInfinity}})
                      .Node("Constant", {}, "low", {{"value_float", -kInfinity}})
                      .Node("Less", {"x", "w"}, "less")
                      .Node("Where", {"less", "low", "high"}, "q")
                      .Node("IsInf", {"q"}, "c", {{"detect_negative", int64_t{0}}})
                      .Node("Where", {"c", "x", "w"}, "y")
                      .Done());
}

void AddCasts(std::vector<OpCase>& cases) {
  for (const int64_t to : {1, 10, 11, 16}) {
    cases.push_back(
        OpCaseBuilder("CastToFloat" + std::to_string(to)).X({4}).Node("Cast", {"x"}, "y", {{"to", to}}).Done());
  }
  for (const int64_t to : {6, 7, 9}) {  // and back, as a factor
    cases.push_back(OpCaseBuilder("CastThrough" + std::to_string(to))
                        .X({6})
                        .Node("Exp", {"x"}, "e")
                        .Node("Cast", {"e"}, "i", {{"to", to}})
                        .Node("CastLike", {"i", "x"}, "f")
                        .Node("Mul", {"f", "x"}, "y")
                        .Done());
  }
  // Only the type of input 1 counts, whichever of the two differs per sample.
  const auto like = [&](const std::string& name, OpCaseBuilder builder) {
    cases.push_back(builder.Node("Mul", {"x", "c"}, "p").Node("Mul", {"p", "w"}, "y").Done());
    cases.back().name = name;
  };
  const auto start = [] { return OpCaseBuilder("").X({4}).W("w", {4}); };
  like("CastLikeSharedAsSamples", start().Node("CastLike", {"w", "x"}, "c"));
  like("CastLikeSamplesAsShared", start().Node("CastLike", {"x", "w"}, "c"));
  like("CastLikeSharedResult",
       start().Node("Exp", {"w"}, "e").Node("Mul", {"x", "x"}, "h").Node("CastLike", {"e", "h"}, "c"));
  like("CastLikeSharedView",
       start().I("axes", {0}).Node("Unsqueeze", {"w", "axes"}, "u").Node("CastLike", {"u", "x"}, "c"));
  cases.push_back(OpCaseBuilder("IntegersAtRunTime")
                      .X({2})
                      .IntInput("i", {2}, {7, -7, 3, 0, -2, 9})
                      .I("two", {2})
                      .Node("Div", {"i", "two"}, "q")
                      .Node("Mod", {"i", "two"}, "r")
                      .Node("Add", {"q", "r"}, "s")
                      .Node("Cast", {"s"}, "f", {{"to", int64_t{1}}})
                      .Node("Mul", {"f", "x"}, "y")
                      .Done());
}

// [N, 12] from the shape [N, 2, 3, 2] by every function that exporters use.
void AddShapeArithmetic(std::vector<OpCase>& cases) {
  cases.push_back(OpCaseBuilder("ShapeArithmetic")
                      .X({2, 3, 2})
                      .I("k1", {1})
                      .I("k2", {2})
                      .I("k3", {3})
                      .I("zero", {0})
                      .Node("Shape", {"x"}, "s")
                      .Node("Gather", {"s", "k1"}, "c")                 // 2
                      .Node("Gather", {"s", "k2"}, "h")                 // 3
                      .Node("Mul", {"c", "h"}, "ch")                    // 6
                      .Node("Add", {"ch", "ch"}, "size")                // 12
                      .Node("Sub", {"size", "k1"}, "less")              // 11
                      .Node("Div", {"less", "k2"}, "half")              // 5
                      .Node("Mod", {"half", "h"}, "rest")               // 2
                      .Node("Max", {"rest", "half"}, "most")            // 5
                      .Node("Min", {"most", "h"}, "least")              // 3
                      .Node("Equal", {"least", "k3"}, "same")           // true
                      .Node("Where", {"same", "size", "zero"}, "pick")  // 12
                      .Node("ReduceProd", {"pick"}, "all", {{"keepdims", int64_t{1}}})
                      .Node("Neg", {"k1"}, "open")  // -1
                      .Node("Concat", {"open", "all"}, "t", {{"axis", int64_t{0}}})
                      .Node("Reshape", {"x", "t"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("FloatShapeArithmetic")
                      .X({5, 4})
                      .I("k2", {2})
                      .I("axis", {1})
                      .Node("Shape", {"x"}, "s")
                      .Node("Gather", {"s", "k2"}, "n")
                      .Node("Cast", {"n"}, "f", {{"to", int64_t{1}}})  // 4
                      .Node("Sqrt", {"f"}, "r")                        // 2
                      .Node("Div", {"x", "r"}, "scaled")
                      .Node("Constant", {}, "c", {{"value_float", 1.7f}})
                      .Node("Mul", {"r", "c"}, "p")
                      .Node("Floor", {"p"}, "q")  // 3
                      .Node("Cast", {"q"}, "k", {{"to", int64_t{7}}})
                      .Node("Slice", {"scaled", "axis", "k", "k2"}, "y")
                      .Done());
}

}  // namespace

void AddElementwiseCases(std::vector<OpCase>& cases) {
  AddUnary(cases);
  AddBinary(cases);
  AddTruths(cases);
  AddCasts(cases);
  AddShapeArithmetic(cases);
}

}  // namespace jacserve::worker
