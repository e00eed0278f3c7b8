// Cases of matrix products and Einsum.
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

void AddMoreMatMuls(std::vector<OpCase>& cases) {
  cases.push_back(OpCaseBuilder("MatMulByVector").X({3, 4}).W("w", {4}).Node("MatMul", {"x", "w"}, "y").Done());
  cases.push_back(OpCaseBuilder("MatMulVectorFirst").X({3, 4}).W("w", {3}).Node("MatMul", {"w", "x"}, "y").Done());
  cases.push_back(OpCaseBuilder("MatMulRowsByVector").X({4}).W("w", {4}).Node("MatMul", {"x", "w"}, "y").Done());
  cases.push_back(OpCaseBuilder("MatMulOfVectors")
                      .X({4})
                      .W("u", {3})
                      .W("v", {3})
                      .Node("MatMul", {"u", "v"}, "s")
                      .Node("Mul", {"x", "s"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("MatMulBatchInColumns")
                      .X({3})
                      .W("w", {2, 3})
                      .Node("Transpose", {"x"}, "t")
                      .Node("MatMul", {"w", "t"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("MatMulVectorAndColumns")
                      .X({3})
                      .W("w", {3})
                      .Node("Transpose", {"x"}, "t")
                      .Node("MatMul", {"w", "t"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("MatMulBatchInStack")
                      .X({2, 3})
                      .W("w", {4, 1, 3, 2})
                      .I("a", {0})
                      .Node("Unsqueeze", {"x", "a"}, "u")
                      .Node("MatMul", {"u", "w"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("MatMulRowsOfAStack")
                      .X({2, 3})
                      .W("w", {2, 3, 4})
                      .Node("Transpose", {"x"}, "t", {{"perm", Ints{1, 0, 2}}})
                      .Node("MatMul", {"t", "w"}, "y")
                      .Done());
  cases.push_back(
      OpCaseBuilder("MatMulStackRepeats").X({2, 1, 3, 2}).W("w", {3, 2, 4}).Node("MatMul", {"x", "w"}, "y").Done());
  cases.push_back(OpCaseBuilder("MatMulTransposedStack")
                      .X({2, 3, 4})
                      .W("w", {2, 5, 4})
                      .Node("Transpose", {"w"}, "t", {{"perm", Ints{0, 2, 1}}})
                      .Node("MatMul", {"x", "t"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("MatMulSequenceTransposedWeight")
                      .X({5, 4})
                      .W("w", {3, 4})
                      .Node("Transpose", {"w"}, "t")
                      .Node("MatMul", {"x", "t"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("MatMulWeightFirstSequence")
                      .X({3, 2})
                      .W("w", {3, 4})
                      .Node("Transpose", {"w"}, "t")
                      .Node("MatMul", {"t", "x"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("MatMulSequenceWeightTwice")
                      .X({4, 3})
                      .W("w", {3, 3})
                      .Node("MatMul", {"x", "w"}, "h")
                      .Node("Tanh", {"h"}, "t")
                      .Node("MatMul", {"t", "w"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("MatMulOfSamples")
                      .MixesSamples()  // a kernel matrix: every sample with every
                      .X({3})
                      .W("w", {3, 3})
                      .Node("MatMul", {"x", "w"}, "h")
                      .Node("Transpose", {"h"}, "t")
                      .Node("MatMul", {"x", "t"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("SelfAttention")
                      .X({4, 3})
                      .W("wq", {3, 2})
                      .W("wk", {3, 2})
                      .W("wv", {3, 3})
                      .Node("MatMul", {"x", "wq"}, "q")
                      .Node("MatMul", {"x", "wk"}, "k")
                      .Node("MatMul", {"x", "wv"}, "v")
                      .Node("Transpose", {"k"}, "t", {{"perm", Ints{0, 2, 1}}})
                      .Node("MatMul", {"q", "t"}, "s")
                      .Node("Softmax", {"s"}, "p")
                      .Node("MatMul", {"p", "v"}, "y")
                      .Done());
}

void AddMoreGemms(std::vector<OpCase>& cases) {
  const auto gemm = [&](const std::string& name, Shape c) {
    cases.push_back(
        OpCaseBuilder(name).X({4}).W("w", {4, 3}).W("c", std::move(c)).Node("Gemm", {"x", "w", "c"}, "y").Done());
  };
  gemm("GemmScalarC", {});
  gemm("GemmOneC", {1});
  gemm("GemmColumnC", {1, 1});
  cases.push_back(OpCaseBuilder("GemmBatchedC")
                      .X({4})
                      .Input("c", {3})
                      .W("w", {4, 3})
                      .Node("Gemm", {"x", "w", "c"}, "y", {{"beta", 0.5f}})
                      .Done());
  cases.push_back(OpCaseBuilder("GemmBatchInColumns")
                      .X({4})
                      .W("w", {3, 4})
                      .W("c", {3, 1})
                      .Node("Gemm", {"w", "x", "c"}, "y", {{"transB", int64_t{1}}, {"alpha", 2.0f}})
                      .Done());
  cases.push_back(OpCaseBuilder("GemmTransposedWeightFirst")
                      .X({4})
                      .W("w", {4, 3})
                      .Node("Gemm", {"w", "x"}, "y", {{"transA", int64_t{1}}, {"transB", int64_t{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("GemmOfSamples")
                      .MixesSamples()
                      .X({3})
                      .W("w", {3, 3})
                      .W("c", {3, 1})
                      .Node("Gemm", {"x", "w"}, "h")
                      .Node("Gemm", {"h", "x", "c"}, "y", {{"transB", int64_t{1}}, {"alpha", 0.5f}})
                      .Done());
  cases.push_back(OpCaseBuilder("GemmOverSamples")
                      .MixesSamples()
                      .X({3})
                      .W("w", {3, 2})
                      .Node("Gemm", {"x", "x"}, "h", {{"transA", int64_t{1}}})
                      .Node("Gemm", {"h", "w"}, "y", {{"transA", int64_t{1}}})
                      .Done());
}

void AddEinsums(std::vector<OpCase>& cases) {
  const auto einsum = [&](const std::string& name, const std::string& equation, Shape x, std::vector<Shape> weights) {
    OpCaseBuilder builder("Einsum" + name);
    builder.X(std::move(x));
    std::vector<std::string> in = {"x"};
    for (const Shape& shape : weights) {
      in.push_back("w" + std::to_string(in.size()));
      builder.W(in.back(), shape);
    }
    cases.push_back(builder.Node("Einsum", in, "y", {{"equation", equation}}).Done());
  };
  einsum("Dense", "bi,ij->bj", {4}, {{4, 3}});
  einsum("DenseImplicit", "bi,ij", {4}, {{4, 3}});
  einsum("Sequence", "btd,de->bte", {3, 4}, {{4, 2}});
  einsum("ToHeads", "btd,dhk->bhtk", {3, 4}, {{4, 2, 3}});
  einsum("FromHeads", "bhtk,hkd->btd", {2, 3, 4}, {{2, 4, 3}});
  einsum("PerHead", "bhd,hde->bhe", {2, 3}, {{2, 3, 4}});
  einsum("Ellipsis", "...i,ij->...j", {2, 3}, {{3, 2}});
  einsum("EllipsisBroadcast", "b...i,...i->b...", {2, 3}, {{1, 3}});
  einsum("Outer", "bi,j->bij", {3}, {{2}});
  einsum("Elementwise", "bij,ji->bij", {2, 3}, {{3, 2}});
  einsum("Sum", "bij->bi", {2, 3}, {});
  einsum("Transposed", "bij -> bji", {2, 3}, {});
  einsum("Diagonal", "bii->bi", {3, 3}, {});
  einsum("Trace", "biji->bj", {3, 2, 3}, {});
  einsum("TraceTimesWeight", "bii,ij->bj", {3, 3}, {{3, 2}});
  einsum("SumsBoth", "bij,kl->bk", {2, 3}, {{2, 3}});
  einsum("Three", "bi,ij,jk->bk", {3}, {{3, 2}, {2, 4}});
  einsum("ThreeShared", "bi,i,i->b", {3}, {{3}, {3}});
  einsum("WeightDiagonal", "bi,ii->bi", {3}, {{3, 3}});
  cases.push_back(OpCaseBuilder("EinsumBatched")
                      .X({2, 3, 4})
                      .Input("z", {2, 5, 4})
                      .Node("Einsum", {"x", "z"}, "y", {{"equation", std::string("bhqd,bhkd->bhqk")}})
                      .Done());
  cases.push_back(OpCaseBuilder("EinsumWeightFirst")
                      .X({3, 4})
                      .W("w", {2, 3})
                      .Node("Einsum", {"w", "x"}, "y", {{"equation", std::string("ij,bjk->bik")}})
                      .Done());
  cases.push_back(OpCaseBuilder("EinsumOfSamples")
                      .MixesSamples()
                      .X({3})
                      .W("w", {3})
                      .Node("Einsum", {"x", "x", "w"}, "y", {{"equation", std::string("bi,ci,i->bc")}})
                      .Done());
}

}  // namespace

void AddProductCases(std::vector<OpCase>& cases) {
  AddProducts(cases);
  AddMoreMatMuls(cases);
  AddMoreGemms(cases);
  AddEinsums(cases);
}

}  // namespace jacserve::worker
