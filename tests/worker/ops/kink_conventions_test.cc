// What derivatives are where a function has none of its own, as docs/conventions.md states it: at kinks and ties, and
// beside infinite slopes. On every backend, in both directions.
#include "tests/worker/ops/conventions.h"

namespace jacserve::worker {
namespace {

using testing::Each;

// y = f(x) of three numbers, each by itself.
struct Pointwise3 {
  const char* name;
  OpCase (*make)();
  Numbers x, y, slopes;
};
OpCase Unary(const char* op, Attributes attributes = {}) {
  return OpCaseBuilder(op).Opset(20).X({1}).Node(op, {"x"}, "y", std::move(attributes)).Done();
}
OpCase Reduction(const char* op) { return Unary(op, {{"noop_with_empty_axes", int64_t{1}}}); }
OpCase ClipTo(float low, float high) {
  return OpCaseBuilder("Clip").X({1}).F("low", {low}).F("high", {high}).Node("Clip", {"x", "low", "high"}, "y").Done();
}
OpCase PowTo(float p) { return OpCaseBuilder("Pow").X({1}).F("p", {p}).Node("Pow", {"x", "p"}, "y").Done(); }
OpCase Norm(const char* op) { return OpCaseBuilder(op).X({2}).I("a", {1}).Node(op, {"x", "a"}, "y").Done(); }

const Pointwise3 kPointwise[] = {
    {"Relu", [] { return Unary("Relu"); }, {-1, 0, 2}, {0, 0, 2}, {0, 0, 1}},
    {"LeakyRelu",
     [] {
       return Unary("LeakyRelu", {{"alpha", 0.25f}});
     },
     {-1, 0, 2},
     {-0.25, 0, 2},
     {0.25, 0.25, 1}},
    {"Abs", [] { return Unary("Abs"); }, {-1, 0, 2}, {1, 0, 2}, {-1, 0, 1}},
    {"Sqrt", [] { return Unary("Sqrt"); }, {0, 1, 4}, {0, 1, 2}, {kInf, 0.5, 0.25}},
    {"HardSigmoid",
     [] {
       return Unary("HardSigmoid", {{"alpha", 0.25f}, {"beta", 0.5f}});
     },
     {-2, 0, 2},
     {0, 0.5, 1},
     {0, 0.25, 0}},
    {"HardSwish", [] { return Unary("HardSwish"); }, {-3, 0, 3}, {0, 0, 3}, {0, 0.5, 1}},
    {"Sign", [] { return Unary("Sign"); }, {-1, 0, 2}, {-1, 0, 1}, {0, 0, 0}},
    {"Floor", [] { return Unary("Floor"); }, {-0.5, 0, 2}, {-1, 0, 2}, {0, 0, 0}},
    {"Round", [] { return Unary("Round"); }, {-0.5, 0.5, 1.5}, {0, 0, 2}, {0, 0, 0}},
    {"ClipAtItsBounds", [] { return ClipTo(0, 2); }, {0, 1, 2}, {0, 1, 2}, {0, 1, 0}},
    {"ClipWithMinAboveMax", [] { return ClipTo(1, -1); }, {-3, 0, 3}, {-1, -1, -1}, {0, 0, 0}},
    {"PowToZero", [] { return PowTo(0); }, {0, 1, 2}, {1, 1, 1}, {0, 0, 0}},
    {"PowToOne", [] { return PowTo(1); }, {0, 1, 2}, {0, 1, 2}, {1, 1, 1}},
    {"PowToTwo", [] { return PowTo(2); }, {0, 1, 2}, {0, 1, 4}, {0, 2, 4}},
    {"PowToAHalf", [] { return PowTo(0.5); }, {0, 1, 4}, {0, 1, 2}, {kInf, 0.5, 0.25}},
    {"ReduceL1OfNoAxes", [] { return Reduction("ReduceL1"); }, {-2, 0, 3}, {2, 0, 3}, {-1, 0, 1}},
    {"ReduceL2OfNoAxes", [] { return Reduction("ReduceL2"); }, {-2, 0, 3}, {2, 0, 3}, {-1, 0, 1}},
    {"ReduceSumSquareOfNoAxes", [] { return Reduction("ReduceSumSquare"); }, {-2, 0, 3}, {4, 0, 9}, {-4, 0, 6}},
    {"ReduceLogSumOfNoAxes",
     [] { return Reduction("ReduceLogSum"); },
     {1, 2, 4},
     {0, std::log(2.0), std::log(4.0)},
     {1, 0.5, 0.25}},
    {"ReduceLogSumExpOfNoAxes", [] { return Reduction("ReduceLogSumExp"); }, {-2, 0, 3}, {-2, 0, 3}, {1, 1, 1}},
    {"ReduceSumOfNoAxes", [] { return Reduction("ReduceSum"); }, {-2, 0, 3}, {-2, 0, 3}, {1, 1, 1}},
    {"ReduceMeanOfNoAxes", [] { return Reduction("ReduceMean"); }, {-2, 0, 3}, {-2, 0, 3}, {1, 1, 1}},
    {"ReduceMaxOfNoAxes", [] { return Reduction("ReduceMax"); }, {-2, 0, 3}, {-2, 0, 3}, {1, 1, 1}},
    {"ReduceMinOfNoAxes", [] { return Reduction("ReduceMin"); }, {-2, 0, 3}, {-2, 0, 3}, {1, 1, 1}},
    {"ReduceProdOfNoAxes", [] { return Reduction("ReduceProd"); }, {-2, 0, 3}, {-2, 0, 3}, {1, 1, 1}},
    // A slope of zero, and a cotangent of zero, beside an infinite one.
    {"SqrtOfRelu",
     [] { return OpCaseBuilder("s").X({1}).Node("Relu", {"x"}, "r").Node("Sqrt", {"r"}, "y").Done(); },
     {-1, 0, 4},
     {0, 0, 2},
     {0, 0, 0.25}},
    {"LogWherePositive",
     [] {
       return OpCaseBuilder("w")
           .X({1})
           .F("z", {0})
           .Node("Greater", {"x", "z"}, "c")
           .Node("Log", {"x"}, "l")
           .Node("Where", {"c", "l", "z"}, "y")
           .Done();
     },
     {0, 1, 2},
     {0, 0, std::log(2.0)},
     {0, 1, 0.5}},
    {"ReciprocalWherePositive",
     [] {
       return OpCaseBuilder("w")
           .X({1})
           .F("z", {0})
           .F("one", {1})
           .Node("Greater", {"x", "z"}, "c")
           .Node("Div", {"one", "x"}, "l")
           .Node("Where", {"c", "l", "z"}, "y")
           .Done();
     },
     {0, 1, 2},
     {0, 1, 0.5},
     {0, -1, -0.25}},
};

class PointwiseConvention : public testing::TestWithParam<Pointwise3> {};
TEST_P(PointwiseConvention, IsAsStated) {
  const Pointwise3& c = GetParam();
  Numbers rows(9, 0.0);
  for (int k = 0; k < 3; ++k) rows[k * 4] = c.slopes[k];
  Everywhere(With(c.make(), {{"x", c.x}}), [&](const Jacobian& jacobian) {
    EXPECT_THAT(jacobian.value, Same(c.y));
    if (jacobian.layout.blocks[0].connected) {
      EXPECT_THAT(jacobian.blocks[0], Same(rows));
    } else {
      EXPECT_THAT(c.slopes, Each(0));
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Ops, PointwiseConvention, testing::ValuesIn(kPointwise),
                         [](const auto& info) { return std::string(info.param.name); });

// y of the n numbers of each sample, and its slopes in them.
struct OfLine {
  const char* name;
  OpCase (*make)();
  Numbers x, y, slopes;
};
OpCase Line(const char* op) { return OpCaseBuilder(op).X({2}).I("a", {1}).Node(op, {"x", "a"}, "y").Done(); }
const OfLine kLines[] = {
    {"ReduceMaxTies", [] { return Line("ReduceMax"); }, {1, 1, 2, 1, 1, 2}, {1, 2, 2}, {1, 0, 1, 0, 0, 1}},
    {"ReduceMinTies", [] { return Line("ReduceMin"); }, {1, 1, 2, 1, 1, 2}, {1, 1, 1}, {1, 0, 0, 1, 1, 0}},
    {"ReduceL2AtZero", [] { return Norm("ReduceL2"); }, {0, 0, 3, 4, 0, 2}, {0, 5, 2}, {0, 0, 0.6, 0.8, 0, 1}},
    {"ReduceL1AtZero", [] { return Norm("ReduceL1"); }, {0, 0, 3, -4, 0, 2}, {0, 7, 2}, {0, 0, 1, -1, 0, 1}},
    {"TopKTies",
     [] {
       return OpCaseBuilder("t").X({2}).I("k", {1}).Node("TopK", {"x", "k"}, "y", {{"axis", int64_t{1}}}).Done();
     },
     {1, 1, 2, 1, 1, 2},
     {1, 2, 2},
     {1, 0, 1, 0, 0, 1}},
    {"MaxPoolTies",
     [] {
       return OpCaseBuilder("m")
           .X({2})
           .I("a", {1})
           .Node("Unsqueeze", {"x", "a"}, "u")
           .Node("MaxPool", {"u"}, "y", {{"kernel_shape", Ints{2}}})
           .Done();
     },
     {1, 1, 2, 1, 1, 2},
     {1, 2, 2},
     {1, 0, 1, 0, 0, 1}},
    {"MaxOfEqual",
     [] {
       return OpCaseBuilder("m")
           .X({2})
           .Node("Split", {"x"}, std::vector<std::string>{"l", "r"},
                 {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}})
           .Node("Max", {"l", "r"}, "y")
           .Done();
     },
     {1, 1, 2, 1, 1, 2},
     {1, 2, 2},
     {1, 0, 1, 0, 0, 1}},
    {"MinOfEqual",
     [] {
       return OpCaseBuilder("m")
           .X({2})
           .Node("Split", {"x"}, std::vector<std::string>{"l", "r"},
                 {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}})
           .Node("Min", {"l", "r"}, "y")
           .Done();
     },
     {1, 1, 2, 1, 1, 2},
     {1, 1, 1},
     {1, 0, 0, 1, 1, 0}},
};
class LineConvention : public testing::TestWithParam<OfLine> {};
TEST_P(LineConvention, IsAsStated) {
  const OfLine& c = GetParam();
  Numbers rows(18, 0.0);
  for (int k = 0; k < 3; ++k) {
    rows[k * 8] = c.slopes[2 * k];
    rows[k * 8 + 1] = c.slopes[2 * k + 1];
  }
  Everywhere(With(c.make(), {{"x", c.x}}), [&](const Jacobian& jacobian) {
    EXPECT_THAT(jacobian.value, Same(c.y));
    EXPECT_THAT(jacobian.blocks[0], Same(rows));
  });
}
INSTANTIATE_TEST_SUITE_P(Ops, LineConvention, testing::ValuesIn(kLines),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace jacserve::worker
