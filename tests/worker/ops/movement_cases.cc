// Cases of products and of operators that move numbers.
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

void AddProducts(std::vector<OpCase>& cases) {
  cases.push_back(OpCaseBuilder("MatMul").X({4}).W("w", {4, 3}).Node("MatMul", {"x", "w"}, "y").Done());
  cases.push_back(OpCaseBuilder("MatMulSequence").X({5, 4}).W("w", {4, 3}).Node("MatMul", {"x", "w"}, "y").Done());
  cases.push_back(OpCaseBuilder("MatMulBatched").X({2, 3}).Input("z", {3, 4}).Node("MatMul", {"x", "z"}, "y").Done());
  cases.push_back(
      OpCaseBuilder("MatMulStackOfWeights").X({2, 3, 4}).W("w", {2, 4, 5}).Node("MatMul", {"x", "w"}, "y").Done());
  cases.push_back(OpCaseBuilder("MatMulWeightFirst").X({3, 2}).W("w", {4, 3}).Node("MatMul", {"w", "x"}, "y").Done());
  cases.push_back(OpCaseBuilder("MatMulTransposedWeight")
                      .X({4})
                      .W("w", {3, 4})
                      .Node("Transpose", {"w"}, "t")
                      .Node("MatMul", {"x", "t"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("MatMulOfComputedWeight")
                      .X({4})
                      .W("w", {4, 3})
                      .W("g", {3})
                      .Node("Mul", {"w", "g"}, "v")
                      .Node("MatMul", {"x", "v"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("WeightTwice")
                      .X({3})
                      .W("w", {3, 3})
                      .Node("MatMul", {"x", "w"}, "h")
                      .Node("Tanh", {"h"}, "t")
                      .Node("MatMul", {"t", "w"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("WeightPlainAndComputed")
                      .X({3})
                      .W("w", {3, 3})
                      .Node("MatMul", {"x", "w"}, "h")
                      .Node("Exp", {"w"}, "e")
                      .Node("MatMul", {"h", "e"}, "y")
                      .Done());
  for (const int64_t transpose : {0, 1}) {
    const std::string suffix = transpose ? "Transposed" : "";
    const Shape w = transpose ? Shape{3, 4} : Shape{4, 3};
    cases.push_back(OpCaseBuilder("Gemm" + suffix)
                        .X({4})
                        .W("w", w)
                        .W("c", {3})
                        .Node("Gemm", {"x", "w", "c"}, "y", {{"transB", transpose}})
                        .Done());
    cases.push_back(OpCaseBuilder("GemmScaled" + suffix)
                        .X({4})
                        .W("w", w)
                        .W("c", {1, 3})
                        .Node("Gemm", {"x", "w", "c"}, "y", {{"transB", transpose}, {"alpha", 0.5f}, {"beta", -2.0f}})
                        .Done());
  }
  cases.push_back(OpCaseBuilder("GemmOfTransposedX")
                      .X({4})
                      .W("w", {4, 3})
                      .Node("Transpose", {"x"}, "t")
                      .Node("Gemm", {"t", "w"}, "y", {{"transA", int64_t{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("GemmWithoutC").X({4}).W("w", {4, 3}).Node("Gemm", {"x", "w"}, "y").Done());
}

void AddShapes(std::vector<OpCase>& cases) {
  cases.push_back(OpCaseBuilder("Reshape").X({2, 6}).I("s", {-1, 4, 3}).Node("Reshape", {"x", "s"}, "y").Done());
  cases.push_back(OpCaseBuilder("ReshapeMergesBatch")
                      .X({2, 3})
                      .W("w", {3, 2})
                      .I("s", {-1, 3})
                      .I("t", {-1, 4})
                      .Node("Reshape", {"x", "s"}, "f")
                      .Node("MatMul", {"f", "w"}, "h")
                      .Node("Reshape", {"h", "t"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("Flatten").X({2, 3, 2}).Node("Flatten", {"x"}, "y").Done());
  cases.push_back(OpCaseBuilder("SqueezeUnsqueeze")
                      .X({1, 3})
                      .I("a", {1})
                      .I("b", {2, 0})
                      .Node("Squeeze", {"x", "a"}, "s")
                      .Node("Unsqueeze", {"s", "b"}, "y")
                      .Done());
  cases.push_back(
      OpCaseBuilder("SqueezeByAttribute").Opset(11).X({1, 3}).Node("Squeeze", {"x"}, "y", {{"axes", Ints{1}}}).Done());
  cases.push_back(
      OpCaseBuilder("Transpose").X({2, 3, 4}).Node("Transpose", {"x"}, "y", {{"perm", Ints{2, 0, 3, 1}}}).Done());
  cases.push_back(OpCaseBuilder("ExpandWeight")
                      .X({2, 3})
                      .W("w", {3})
                      .I("s", {2, 3})
                      .Node("Expand", {"w", "s"}, "e")
                      .Node("Mul", {"x", "e"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("ExpandX").X({1, 3}).I("s", {1, 2, 3}).Node("Expand", {"x", "s"}, "y").Done());
  cases.push_back(OpCaseBuilder("Concat")
                      .X({2, 3})
                      .Input("z", {2, 2})
                      .Node("Concat", {"x", "z", "x"}, "y", {{"axis", int64_t{-1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("Slice")
                      .X({5, 4})
                      .I("a", {1, 3})
                      .I("b", {5, 0})
                      .I("c", {1, 2})
                      .I("d", {2, -1})
                      .Node("Slice", {"x", "a", "b", "c", "d"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("SliceByAttribute")
                      .Opset(9)
                      .X({5})
                      .Node("Slice", {"x"}, "y", {{"starts", Ints{1}}, {"ends", Ints{-1}}, {"axes", Ints{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("Gather")
                      .X({4, 2})
                      .I("i", {3, 0, 3, -2})
                      .Node("Gather", {"x", "i"}, "y", {{"axis", int64_t{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("FlattenByShapeArithmetic")
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

}  // namespace

void AddMovementCases(std::vector<OpCase>& cases) {
  AddProducts(cases);
  AddShapes(cases);
}

}  // namespace jacserve::worker
