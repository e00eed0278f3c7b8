// The contract of the primitives: every backend gives the float64 reference's numbers, for lanes at any stride and by
// an index, for one term a row and for two, written and added.
#include <cmath>

#include "tests/worker/backend/rig.h"
#include "worker/backend/cpu/cpu_backend.h"
#ifdef JACSERVE_CUDA_SIM
#include "worker/backend/cuda/cuda_backend.h"
#endif

namespace jacserve::worker {
namespace {

using Numbers = std::vector<double>;
const std::vector<int32_t> kIndex = {2, 0, 2, 1, 1, 0};  // six lanes of three records

WindowGeometry Window(Spatial in, Spatial kernel, Spatial stride, Spatial dilation, Spatial begin, Spatial end,
                      int64_t groups, bool kernel_major) {
  WindowGeometry g{.in_channels = 4, .out_channels = 6, .groups = groups, .in = in, .kernel = kernel};
  g.stride = stride;
  g.dilation = dilation;
  g.pad_begin = begin;
  g.pad_end = end;
  g.kernel_major = kernel_major;
  for (int axis = 0; axis < kSpatialAxes; ++axis) {
    g.out[axis] = (in[axis] + begin[axis] + end[axis] - dilation[axis] * (kernel[axis] - 1) - 1) / stride[axis] + 1;
  }
  return g;
}

const WindowGeometry kWindows[] = {
    Window({1, 7, 6}, {1, 3, 2}, {1, 2, 1}, {1, 1, 1}, {0, 1, 0}, {0, 2, 1}, 1, false),  // uneven pads
    Window({1, 7, 6}, {1, 3, 2}, {1, 2, 1}, {1, 1, 1}, {0, 1, 0}, {0, 2, 1}, 1, true),
    Window({1, 8, 8}, {1, 3, 3}, {1, 1, 1}, {1, 2, 2}, {0, 2, 2}, {0, 2, 2}, 2, false),  // dilated, in groups
    Window({1, 8, 8}, {1, 3, 3}, {1, 1, 1}, {1, 2, 2}, {0, 2, 2}, {0, 2, 2}, 2, true),
    Window({3, 4, 5}, {2, 2, 3}, {1, 2, 2}, {1, 1, 1}, {1, 0, 1}, {0, 1, 1}, 1, false),  // three axes
    Window({1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 1, false),  // pointwise
    Window({1, 9, 9}, {1, 1, 1}, {1, 4, 4}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 1, false),  // leaves inputs out
};

// What each case writes; of backends in float32 and float64 alike.
struct Case {
  const char* name;
  Numbers (*run)(Rig&);
};

Numbers Gemm(Rig& rig) {
  Numbers out;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const bool by_index : {false, true}) {
        for (const double beta : {0.0, 1.0}) {
          const GemmShape s{transpose_a, transpose_b, 5, 4, 3, transpose_a ? 6 : 4, transpose_b ? 3 : 7, 9, 0.5, beta};
          const ConstLanes a = rig.In(6, 40), b = rig.In(3, 30);
          const Lanes c = rig.Out(6, 45);
          rig->Gemm(s, 6, a, by_index ? rig.By(kIndex, b) : ConstLanes{b.data, 0}, c);
          rig.Read(c, 6 * 45, out);
        }
      }
    }
  }
  const Lanes c = rig.Out(2, 20);  // a sum of nothing
  rig->Gemm({.m = 4, .n = 5, .k = 0, .lda = 1, .ldb = 5, .ldc = 5}, 2, rig.In(2, 4), rig.In(2, 4), c);
  rig.Read(c, 2 * 20, out);
  return out;
}

Numbers Rows(Rig& rig) {
  Numbers out;
  for (const int64_t n : {5, 8}) {
    for (const int64_t per_row : {1, 2}) {
      for (const bool accumulate : {false, true}) {
        const Lanes rows = rig.Out(6 / per_row, 3 * n);
        rig->OuterRows({6 / per_row, per_row}, 3, n, rig.In(6, 3), rig.By(kIndex, rig.In(3, n, 2)), rows, accumulate);
        rig.Read(rows, 6 / per_row * 3 * n, out);
        const Lanes sums = rig.Out(6 / per_row, 4 * n);
        rig->SumTerms({6 / per_row, per_row}, rig.In(6, 3 * n), {sums.data, 4 * n, {3, n}, {1, 4}, accumulate});
        rig.Read(sums, 6 / per_row * 4 * n, out);
      }
    }
  }
  return out;
}

Numbers Convolution(Rig& rig) {
  Numbers out;
  for (const WindowGeometry& g : kWindows) {
    const int64_t weights = g.out_channels * g.K();
    const Lanes patches = rig.Out(3, g.PatchSize()), y = rig.Out(3, g.OutSize()), ct_x = rig.Out(6, g.InSize());
    rig->Patches(g, 3, rig.In(3, g.InSize(), 3), patches);
    rig.Read(patches, 3 * g.PatchSize(), out);
    rig->ConvForward(g, 3, patches, {rig.In(1, weights).data, 0}, y);
    rig.Read(y, 3 * g.OutSize(), out);
    const ConstLanes ct_y = rig.In(6, g.OutSize());
    rig->ConvDataPullback(g, 6, ct_y, {rig.In(1, weights).data, 0}, ct_x, rig.scratch());
    rig.Read(ct_x, 6 * g.InSize(), out);
    for (const int64_t per_row : {1, 2}) {
      const Lanes rows = rig.Out(6 / per_row, weights);
      rig->ConvWeightRows(g, {6 / per_row, per_row}, ct_y, rig.By(kIndex, patches), rows, per_row == 1);
      rig.Read(rows, 6 / per_row * weights, out);
    }
  }
  return out;
}

Numbers Pooling(Rig& rig) {
  Numbers out;
  for (WindowGeometry g : kWindows) {
    g.out_channels = g.in_channels;
    g.groups = 1;
    const Lanes y = rig.Out(3, g.OutSize()), arg = rig.IntsOut(3, g.OutSize()), ct_x = rig.Out(6, g.InSize());
    // Few different numbers, so that many are equal.
    std::vector<double> ties(3 * g.InSize());
    for (size_t p = 0; p < ties.size(); ++p) ties[p] = static_cast<double>(p * 7 % 3);
    rig->MaxPool(g, 3, rig.Numbers(ties, g.InSize()), y, arg);
    rig.Read(y, 3 * g.OutSize(), out);
    rig.ReadAs<int32_t>(arg, 3 * g.OutSize(), out);
    const ConstLanes where = rig.By(kIndex, arg);
    rig->ScatterAdd(6, g.OutSize(), g.InSize(), where, rig.In(6, g.OutSize()), ct_x);
    rig.Read(ct_x, 6 * g.InSize(), out);
    const Lanes taken = rig.Out(6, g.OutSize());
    rig->TakeAt(6, g.OutSize(), where, rig.In(6, g.InSize()), taken);
    rig.Read(taken, 6 * g.OutSize(), out);
    for (const bool count_pads : {false, true}) {
      rig->AveragePool(g, count_pads, 3, rig.In(3, g.InSize()), y);
      rig.Read(y, 3 * g.OutSize(), out);
      rig->AveragePoolPullback(g, count_pads, 6, rig.In(6, g.OutSize()), ct_x);
      rig.Read(ct_x, 6 * g.InSize(), out);
    }
  }
  return out;
}

Numbers Strided(Rig& rig) {
  Numbers out;
  for (const bool accumulate : {false, true}) {
    const Lanes turned = rig.Out(6, 24);
    rig->CopyStrided(6, {2, 3, 4}, rig.By(kIndex, rig.In(3, 24)), {12, 4, 1}, turned, {1, 2, 6}, accumulate, -2.0);
    rig.Read(turned, 6 * 24, out);
  }
  for (const int64_t summed : {3, 300}) {  // a short sum and a long one
    const Lanes sums = rig.Out(2, 5);
    rig->CopyStrided(2, {summed, 5}, rig.In(2, summed * 5), {5, 1}, sums, {0, 1}, true, 0.5);
    rig.Read(sums, 2 * 5, out);
    const Lanes terms = rig.Out(2, 5);
    const BinaryOperands at{rig.In(2, 5), {0, 1}, rig.In(2, summed * 5), {5, 1}};
    rig->BinaryTerm(BinaryFunction::kMul, 0, 2, {summed, 5}, at, rig.In(2, summed), {1, 0}, terms, {0, 1}, true);
    rig.Read(terms, 2 * 5, out);
  }
  const Lanes filled = rig.Out(3, 7);
  rig->Fill(3, 4, 1.5, filled);
  rig.Read(filled, 3 * 7, out);
  const Lanes chosen = rig.Out(3, 12);
  rig->Select(3, {3, 4}, rig.Numbers({1, 0, 0, 1}, 0), {0, 1}, rig.In(3, 12), {4, 1}, rig.In(3, 3), {1, 0}, chosen);
  rig.Read(chosen, 3 * 12, out);
  const Lanes added = rig.Out(6, 12);
  rig->Binary(BinaryFunction::kSub, 6, {3, 4}, rig.By(kIndex, rig.In(3, 3)), {1, 0}, rig.In(6, 12), {4, 1}, added);
  rig.Read(added, 6 * 12, out);
  return out;
}

Numbers Formulas(Rig& rig) {
  Numbers out;
  const Lanes y = rig.Out(2, 9), ct_x = rig.Out(2, 9);
#define X(Name, reads, f, df)                                                                    \
  {                                                                                              \
    const ConstLanes x = rig.Numbers({-0.75, -0.5, -0.25, 0, 0.125, 0.25, 0.5, 0.625, 0.75}, 0); \
    rig->Unary(UnaryFunction::k##Name, {0.25, 0.5}, 2, 9, x, y);                                 \
    rig.Read(y, 18, out);                                                                        \
    rig->UnaryPullback(UnaryFunction::k##Name, {0.25, 0.5}, 2, 9, x, y, rig.In(2, 9), ct_x);     \
    rig.Read(ct_x, 18, out);                                                                     \
  }
  JACSERVE_UNARY(X)
#undef X
#define X(Name, f, da_bits, da, db_bits, db)                                                                    \
  {                                                                                                             \
    const ConstLanes a = rig.In(2, 9), b = rig.In(2, 9);                                                        \
    rig->Binary(BinaryFunction::k##Name, 2, {9}, a, {1}, b, {1}, y);                                            \
    rig.Read(y, 18, out);                                                                                       \
    for (const int side : {0, 1}) {                                                                             \
      rig->BinaryTerm(BinaryFunction::k##Name, side, 2, {9}, {a, {1}, b, {1}, y}, rig.In(2, 9), {1}, ct_x, {1}, \
                      false);                                                                                   \
      rig.Read(ct_x, 18, out);                                                                                  \
    }                                                                                                           \
  }
  JACSERVE_BINARY(X)
#undef X
  return out;
}

Numbers Lines(Rig& rig) {
  Numbers out;
  for (const auto& [outer, n, inner] : {std::array<int64_t, 3>{3, 5, 2}, {2, 300, 1}}) {
    const int64_t size = outer * n * inner;
    const Lanes y = rig.Out(2, size), ct_x = rig.Out(2, size);
    for (const bool flag : {false, true}) {
      rig->Softmax(flag, 2, outer, n, inner, rig.In(2, size), y);
      rig.Read(y, 2 * size, out);
      rig->SoftmaxPullback(flag, 2, outer, n, inner, y, rig.In(2, size), ct_x);
      rig.Read(ct_x, 2 * size, out);
      rig->Scan(false, flag, !flag, 2, outer, n, inner, rig.In(2, size), y);
      rig.Read(y, 2 * size, out);
    }
    for (const int64_t k : {1, 3}) {
      const Lanes values = rig.Out(2, outer * k * inner), indices = rig.Out(2, outer * k * inner);
      const Lanes arg = rig.IntsOut(2, outer * k * inner);
      rig->TopK({outer, n, inner, k, k == 1, k == 3}, 2, rig.In(2, size), values, indices, arg);
      rig.Read(values, 2 * outer * k * inner, out);
      rig.Read(indices, 2 * outer * k * inner, out);
      rig.ReadAs<int32_t>(arg, 2 * outer * k * inner, out);
    }
  }
  return out;
}

Numbers Normalisation(Rig& rig) {
  Numbers out;
  const NormGroups groups[] = {{2, 12, true, 1e-3}, {3, 8, false, 1e-3}};
  for (const NormGroups& g : groups) {
    const Channels c{24, 2, 4};
    const Lanes normal = rig.Out(3, 24), rstd = rig.Out(3, g.groups), mean = rig.Out(3, g.groups);
    rig->Normalize(g, 3, rig.In(3, 24), normal, rstd, mean);
    rig.Read(normal, 3 * 24, out);
    rig.Read(rstd, 3 * g.groups, out);
    rig.Read(mean, 3 * g.groups, out);
    const Lanes ct_x = rig.Out(6, 24);
    rig->NormalizePullback(g, c, 6, rig.By(kIndex, normal), rig.By(kIndex, rstd), {rig.In(1, 4).data, 0}, rig.In(6, 24),
                           ct_x);
    rig.Read(ct_x, 6 * 24, out);
    rig->Affine(c, 6, rig.In(6, 24), {rig.In(1, 4).data, 0}, {}, ct_x);
    rig.Read(ct_x, 6 * 24, out);
    const Lanes rows = rig.Out(3, 4);
    rig->ChannelRows(c, {3, 2}, rig.In(6, 24), rig.By(kIndex, normal), rows, g.centred);
    rig.Read(rows, 3 * 4, out);
  }
  return out;
}

Numbers Indices(Rig& rig) {
  Numbers out;
  const IndexGeometry g{
      .points = {4}, .base_strides = {0}, .index_strides = {1}, .sizes = {5}, .strides = {3}, .block = 3};
  for (const double last : {-2.0, 9.0}) {  // inside, and outside
    const ConstLanes index = rig.Numbers({0, 4, 4, last}, 0);
    const Lanes y = rig.Out(2, 12);
    rig->TakeIndexed(g, 2, rig.In(2, 15), index, 0.25, y);
    rig.Read(y, 2 * 12, out);
    for (const bool accumulate : {false, true}) {
      const Lanes x = rig.Out(2, 15);
      rig->PutIndexed(g, 2, index, rig.In(2, 12), accumulate, 2, x);
      rig.Read(x, 2 * 15, out);
    }
  }
  return out;
}

constexpr Case kCases[] = {{"Gemm", Gemm},       {"Rows", Rows},       {"Convolution", Convolution},
                           {"Pooling", Pooling}, {"Strided", Strided}, {"Formulas", Formulas},
                           {"Lines", Lines},     {"Indices", Indices}, {"Normalisation", Normalisation}};

std::unique_ptr<Backend> MakeUnderTest(DType dtype) {
#ifdef JACSERVE_CUDA_SIM
  return *MakeCudaBackend(dtype, false);
#else
  return MakeCpuBackend(dtype);
#endif
}

class Contract : public testing::TestWithParam<std::tuple<Case, DType>> {};

TEST_P(Contract, GivesTheReferencesNumbers) {
  const auto& [one, dtype] = GetParam();
  Rig rig(MakeUnderTest(dtype)), reference(MakeReferenceBackend(DType::kFloat64));
  const Numbers got = one.run(rig), expected = one.run(reference);
  ASSERT_EQ(got.size(), expected.size());
  const double tolerance = dtype == DType::kFloat32 ? 5e-5 : 1e-12;
  for (size_t p = 0; p < expected.size(); ++p) {
    if (std::isnan(expected[p]) || std::isinf(expected[p])) {
      EXPECT_TRUE(std::isnan(expected[p]) ? std::isnan(got[p]) : got[p] == expected[p]) << p << ": " << got[p];
    } else {
      EXPECT_NEAR(got[p], expected[p], tolerance * std::max(1.0, std::fabs(expected[p]))) << p;
    }
  }
}

// Numbers at which slopes are 0, infinite or none.
const Numbers kEdges = {-HUGE_VAL, -2, -1, -0.5, 0, 0.5, 1, 2, HUGE_VAL, std::nan("")};

class ZeroFactors : public testing::TestWithParam<std::tuple<bool, DType>> {};

TEST_P(ZeroFactors, GiveZeroWhateverTheOther) {
  const auto& [oracle, dtype] = GetParam();
  Rig rig(oracle ? MakeReferenceBackend(dtype) : MakeUnderTest(dtype));
  const auto n = static_cast<int64_t>(kEdges.size());
  const ConstLanes edges = rig.Numbers(kEdges, n), none = rig.Numbers(Numbers(n, 0.0), n);
  const ConstLanes other = rig.Numbers(Numbers(kEdges.rbegin(), kEdges.rend()), n);
  const Lanes y = rig.Out(1, n), term = rig.Out(1, n);
  Numbers terms;
#define X(Name, reads, f, df)                                                          \
  rig->Unary(UnaryFunction::k##Name, {0.25, 0.5}, 1, n, edges, y);                     \
  rig->UnaryPullback(UnaryFunction::k##Name, {0.25, 0.5}, 1, n, edges, y, none, term); \
  rig.Read(term, n, terms);
  JACSERVE_UNARY(X)
#undef X
#define X(Name, f, da_bits, da, db_bits, db)                                                                          \
  rig->Binary(BinaryFunction::k##Name, 1, {n}, edges, {1}, other, {1}, y);                                            \
  for (const int side : {0, 1}) {                                                                                     \
    rig->BinaryTerm(BinaryFunction::k##Name, side, 1, {n}, {edges, {1}, other, {1}, y}, none, {1}, term, {1}, false); \
    rig.Read(term, n, terms);                                                                                         \
  }
  JACSERVE_BINARY(X)
#undef X
  rig->UnaryPullback(UnaryFunction::kRelu, {}, 1, n, none, none, edges, term);  // a flat branch
  rig.Read(term, n, terms);
  rig->BinaryTerm(BinaryFunction::kMul, 0, 1, {n}, {edges, {1}, none, {1}, y}, edges, {1}, term, {1}, false);
  rig.Read(term, n, terms);
  for (size_t p = 0; p < terms.size(); ++p) EXPECT_EQ(terms[p], 0.0) << p / n << " at " << kEdges[p % n];
}

INSTANTIATE_TEST_SUITE_P(Elementwise, ZeroFactors,
                         testing::Combine(testing::Bool(), testing::Values(DType::kFloat32, DType::kFloat64)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "reference_" : "backend_") +
                                  std::string(NameOf(std::get<1>(info.param)));
                         });

INSTANTIATE_TEST_SUITE_P(Primitives, Contract,
                         testing::Combine(testing::ValuesIn(kCases), testing::Values(DType::kFloat32, DType::kFloat64)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::string(NameOf(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace jacserve::worker
