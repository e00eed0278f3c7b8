// Graphs that compute with the number of samples: their numbers are those of the real batch, whatever stood for it
// while shapes were inferred, and in whichever mode they run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/worker/ops/compute_jacobian.h"
#include "tests/worker/ops/op_builder.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {
namespace {

using testing::HasSubstr;

constexpr int64_t kFeatures = 4;

// x[n, j] and w[j]; "N" is the number of samples, "n1" the same with one axis.
OpCaseBuilder Start() {
  OpCaseBuilder b("BatchNumber");
  b.X({kFeatures}).W("w", {kFeatures}).I("zero", {0}).I("one", {1}).I("four", {4}).I("none", {});
  b.Node("Shape", {"x"}, "shape").Node("Gather", {"shape", "zero"}, "n1").Node("Reshape", {"n1", "none"}, "N");
  b.Node("CastLike", {"N", "x"}, "number");
  return b;
}

OpCase Scaled(OpCaseBuilder b, const std::string& factor) {
  return b.Node("Mul", {"x", "w"}, "xw").Node("Mul", {"xw", factor}, "y").Done();
}

HostTensor Ramp(Shape shape, float begin) {
  auto bytes = std::make_shared<std::vector<std::byte>>(Elements(shape) * sizeof(float));
  for (int64_t p = 0; p < Elements(shape); ++p) {
    const float value = begin + 0.125F * static_cast<float>(p);
    std::memcpy(bytes->data() + p * sizeof value, &value, sizeof value);
  }
  return {DType::kFloat32, std::move(shape), std::move(bytes)};
}

JacobianProblem WithSamples(const OpCase& op, int64_t samples) {
  JacobianProblem problem = op.problem;
  Shape shape = problem.inputs[0].second.shape;
  shape[0] = samples;
  problem.inputs[0].second = Ramp(shape, 1.0F);
  return problem;
}

bool Coupled(const JacobianProblem& problem) {
  Bindings bindings;
  for (const auto& [name, tensor] : problem.weights) bindings.weights[name] = {tensor.dtype, tensor.shape};
  for (const auto& [name, tensor] : problem.inputs) bindings.inputs[name] = {tensor.dtype, tensor.shape};
  const auto program = CompileSampleProgram(*problem.graph, bindings);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() && program->coupled;
}

// y[n, j] = factor(N, n, j) x[n, j] w[j].
struct Case {
  const char* name;
  OpCase (*make)();
  double (*factor)(int64_t samples, int64_t n, int64_t j);
  bool coupled = false;
};

OpCase Sliced(const char* end) {
  OpCaseBuilder b = Start();
  b.F("c", {1, 2, 3, 4, 5, 6, 7, 8}).Node("Min", {"n1", "four"}, "least");
  b.Node("Slice", {"c", "zero", end, "zero"}, "part").Node("ReduceSum", {"part"}, "f", {{"keepdims", int64_t{0}}});
  return Scaled(std::move(b), "f");
}

// `value` repeated to [N, N, 4], summed along one of the N.
OpCase Repeated(const char* before, int64_t axis) {
  OpCaseBuilder b = Start();
  b.I("axis", {axis}).I("at", {before[0] == 'w' ? 0 : 1 - axis});
  b.Node("Mul", {"x", "w"}, "xw").Node("Concat", {"n1", "n1", "four"}, "target", {{"axis", int64_t{0}}});
  if (before[0] == 'x') b.Node("Unsqueeze", {"xw", "axis"}, "u").Node("Expand", {"u", "target"}, "e");
  if (before[0] == 'w') b.Node("Expand", {"w", "target"}, "e");
  b.Node("ReduceSum", {"e", "axis"}, "s", {{"keepdims", int64_t{0}}});
  return before[0] == 'x' ? b.Done("s") : b.Node("Mul", {"x", "s"}, "y").Done();
}

OpCase Tiled() {
  OpCaseBuilder b = Start();
  b.Node("Mul", {"x", "w"}, "xw").Node("Unsqueeze", {"xw", "one"}, "u");
  b.Node("Concat", {"one", "n1", "one"}, "repeats", {{"axis", int64_t{0}}}).Node("Tile", {"u", "repeats"}, "t");
  return b.Node("ReduceSum", {"t", "one"}, "y", {{"keepdims", int64_t{0}}}).Done();
}

OpCase Ones(const char* axis) {
  OpCaseBuilder b = Start();
  b.Node("Concat", {"n1", "n1"}, "target", {{"axis", int64_t{0}}});
  b.Node("ConstantOfShape", {"target"}, "zeros").Node("Exp", {"zeros"}, "ones");
  b.Node("ReduceSum", {"ones", axis}, "s", {{"keepdims", int64_t{0}}}).Node("Unsqueeze", {"s", "one"}, "f");
  return Scaled(std::move(b), "f");
}

OpCase Chosen() {
  OpCaseBuilder b = Start();
  b.I("three", {3}).F("a", {2}).F("b", {5}).Node("Equal", {"n1", "three"}, "is").Node("Where", {"is", "a", "b"}, "f");
  return Scaled(std::move(b), "f");
}

const Case kCases[] = {
    {"DividesByN", [] { return Scaled(Start().Node("Reciprocal", {"number"}, "f"), "f"); },
     [](int64_t samples, int64_t, int64_t) { return 1.0 / static_cast<double>(samples); }},
    {"LogOfN",
     [] {
       return Scaled(Start().F("e", {1}).Node("Add", {"number", "e"}, "m").Node("Log", {"m"}, "f"), "f");
     },
     [](int64_t samples, int64_t, int64_t) { return std::log(static_cast<double>(samples) + 1); }},
    {"Size",
     [] {
       OpCaseBuilder b = Start();
       b.Node("Size", {"x"}, "size").Node("CastLike", {"size", "x"}, "s").Node("Reciprocal", {"s"}, "f");
       return Scaled(std::move(b), "f");
     },
     [](int64_t samples, int64_t, int64_t) { return 0.25 / static_cast<double>(samples); }},
    {"ChoosesByN", Chosen, [](int64_t samples, int64_t, int64_t) { return samples == 3 ? 2.0 : 5.0; }},
    {"SliceToN", [] { return Sliced("n1"); },
     [](int64_t samples, int64_t, int64_t) { return static_cast<double>(samples * (samples + 1) / 2); }},
    {"SliceToLeast", [] { return Sliced("least"); },
     [](int64_t samples, int64_t, int64_t) {
       const int64_t least = std::min<int64_t>(samples, 4);
       return static_cast<double>(least * (least + 1) / 2);
     }},
    {"RepeatsSamples", [] { return Repeated("x", 0); },
     [](int64_t samples, int64_t, int64_t) { return static_cast<double>(samples); }},
    {"RepeatsInSamples", [] { return Repeated("x", 1); },
     [](int64_t samples, int64_t, int64_t) { return static_cast<double>(samples); }},
    {"RepeatsWeightForSamples", [] { return Repeated("w", 1); },
     [](int64_t samples, int64_t, int64_t) { return static_cast<double>(samples); }},
    {"RepeatsWeightOverSamples", [] { return Repeated("w", 0); },
     [](int64_t samples, int64_t, int64_t) { return static_cast<double>(samples); }, true},
    {"Tile", Tiled, [](int64_t samples, int64_t, int64_t) { return static_cast<double>(samples); }},
    {"OnesForSamples", [] { return Ones("one"); },
     [](int64_t samples, int64_t, int64_t) { return static_cast<double>(samples); }},
    {"OnesOverSamples", [] { return Ones("zero"); },
     [](int64_t samples, int64_t, int64_t) { return static_cast<double>(samples); }, true},
    {"RangeOfN",
     [] {
       OpCaseBuilder b = Start();
       b.Node("Reshape", {"zero", "none"}, "from").Node("Reshape", {"one", "none"}, "step");
       b.Node("Range", {"from", "N", "step"}, "r").Node("CastLike", {"r", "x"}, "rf");
       return Scaled(b.Node("Unsqueeze", {"rf", "one"}, "f"), "f");
     },
     [](int64_t, int64_t n, int64_t) { return static_cast<double>(n); }, true},
};

class BatchNumberTest : public testing::TestWithParam<Case> {};

TEST_P(BatchNumberTest, IsThatOfTheRequest) {
  const OpCase op = GetParam().make();
  for (int64_t samples : {1, 3, 4, 5}) {
    SCOPED_TRACE(samples);
    const JacobianProblem problem = WithSamples(op, samples);
    EXPECT_EQ(Coupled(problem), GetParam().coupled);
    const float *x = problem.inputs[0].second.data<float>(), *w = problem.weights[0].second.data<float>();
    for (const BackendKind backend : {BackendKind::kReference, BackendKind::kCpu}) {
      for (const Direction direction : {Direction::kPullback, Direction::kPushforward}) {
        JacobianProblem asked = problem;
        if (direction == Direction::kPushforward) asked.wrt_parameters.clear();
        if (direction == Direction::kPushforward && GetParam().coupled) continue;
        const Jacobian jacobian = Compute(asked, backend, DType::kFloat64, direction);
        ASSERT_EQ(jacobian.layout.target_shape, (Shape{samples, kFeatures}));
        for (const BlockInfo& block : jacobian.layout.blocks) {
          const std::vector<double>& numbers = jacobian.blocks[&block - jacobian.layout.blocks.data()];
          ASSERT_TRUE(block.connected) << block.name;
          const int64_t columns = Elements(block.shape);
          for (int64_t row = 0; row < samples * kFeatures; ++row) {
            const int64_t j = row % kFeatures;
            const double factor = GetParam().factor(samples, row / kFeatures, j);
            EXPECT_NEAR(jacobian.value[row], factor * x[row] * w[j], 1e-12);
            for (int64_t column = 0; column < columns; ++column) {
              const double here = block.name == "x" ? (column == row ? w[j] : 0.0) : (column == j ? x[row] : 0.0);
              ASSERT_NEAR(numbers[row * columns + column], factor * here, 1e-12) << block.name << " row " << row;
            }
          }
        }
      }
    }
  }
}

TEST_P(BatchNumberTest, DoesNotHideFromADescriptionWhetherSamplesAreIndependent) {
  const GraphReport report = ReportOn(*GetParam().make().graph);
  EXPECT_EQ(report.samples_independent, !GetParam().coupled) << report.coupling;
}

INSTANTIATE_TEST_SUITE_P(Graphs, BatchNumberTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

absl::Status PairStatus(const OpCase& op, int64_t first, int64_t second) {
  JacobianProblem problem = WithSamples(op, first);
  problem.pairwise = PairwiseTarget{.similarity = Similarity::kDot};
  problem.second_inputs = WithSamples(op, second).inputs;
  return Engine::Create(std::move(problem), {}).status();
}

TEST(BatchNumber, IsRefusedWhereTwoBatchesDisagree) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    EXPECT_TRUE(PairStatus(c.make(), 3, 3).ok()) << PairStatus(c.make(), 3, 3);
    const absl::Status status = PairStatus(c.make(), 3, 5);
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("node node_"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("both batches must have the same size, not 3 and 5"));
  }
  EXPECT_TRUE(PairStatus(Sliced("least"), 5, 7).ok());  // 4 in both
}

// A file that was exported at 3 samples and holds them in a shape.
OpCase ExportedAt3(bool with_number) {
  OpCaseBuilder b = Start();
  b.I("halves", {3, 2, 2}).I("flat", {-1}).Node("Reshape", {"x", "halves"}, "h");
  b.Node("Concat", {"n1", "flat"}, "back", {{"axis", int64_t{0}}}).Node("Reshape", {"h", "back"}, "xx");
  b.Node("Mul", {"xx", "w"}, "xw").ExportedAt(3);
  return with_number ? b.Node("Div", {"xw", "number"}, "y").Done() : b.Done("xw");
}

TEST(BatchNumber, FollowsTheRequestWhereTheFileStatesAnother) {
  EXPECT_FALSE(Coupled(WithSamples(ExportedAt3(true), 3)));
  EXPECT_FALSE(Coupled(WithSamples(ExportedAt3(false), 5)));  // the number only stands in a shape
  const std::vector<double> by3 = Compute(WithSamples(ExportedAt3(true), 3), BackendKind::kCpu, DType::kFloat64).value;
  const std::vector<double> whole =
      Compute(WithSamples(ExportedAt3(false), 3), BackendKind::kCpu, DType::kFloat64).value;
  for (size_t p = 0; p < by3.size(); ++p) EXPECT_NEAR(by3[p], whole[p] / 3, 1e-12);
  const absl::Status status = Engine::Create(WithSamples(ExportedAt3(true), 5), {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

}  // namespace
}  // namespace jacserve::worker
