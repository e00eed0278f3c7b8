// Graphs of a few bytes that ask for more than there is: each is refused in words, at once and within little memory.
// And numbers at the edge: what is infinite or no number stays that, and spoils nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/worker/ops/compute_jacobian.h"
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

constexpr int64_t kHuge = int64_t{1} << 36;

struct Hostile {
  const char* name;
  OpCase (*graph)();
};

void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

// y of huge size, then its sum: one number a sample.
OpCase Summed(OpCaseBuilder& builder) {
  return builder.Node("ReduceSum", {"e"}, "y", {{"keepdims", int64_t{1}}}).Done();
}

const Hostile kHostile[] = {
    {"SizesThatMultiplyBeyondCounting",
     [] {
       OpCaseBuilder b("b");
       b.X({1, 1}).I("s", {1, 1, kHuge}).I("t", {1, kHuge, 1});
       b.Node("Expand", {"x", "s"}, "p").Node("Expand", {"x", "t"}, "q").Node("Add", {"p", "q"}, "e");
       return Summed(b);
     }},
    {"Expand",
     [] {
       OpCaseBuilder b("b");
       b.X({1, 1}).I("s", {1, kHuge, 8}).Node("Expand", {"x", "s"}, "e");
       return Summed(b);
     }},
    {"ReflectedPads",
     [] {
       OpCaseBuilder b("b");
       b.X({2, 5}).I("p", {0, 3000, 1 << 23, 0, 3000, 0});
       b.Node("Pad", {"x", "p"}, "e", {{"mode", std::string("reflect")}});
       return Summed(b);
     }},
    {"Pads",
     [] {
       OpCaseBuilder b("b");
       b.X({3}).I("p", {0, kHuge, 0, 0}).Node("Pad", {"x", "p"}, "e");
       return Summed(b);
     }},
    {"Resize",
     [] {
       OpCaseBuilder b("b");
       b.X({1, 3}).F("s", {1, 1, 1e12f}).Node("Resize", {"x", "", "s"}, "e");
       return Summed(b);
     }},
    {"PoolOverPads",
     [] {
       OpCaseBuilder b("b");
       b.X({1, 3}).Node("AveragePool", {"x"}, "e", {{"kernel_shape", Ints{1 << 19}}, {"pads", Ints{1 << 19, 1 << 19}}});
       return Summed(b);
     }},
    {"ConvOverPads",
     [] {
       OpCaseBuilder b("b");
       b.X({1, 4, 4}).W("w", {1, 1, 3, 3});
       b.Node("Conv", {"x", "w"}, "e", {{"pads", Ints{int64_t{1} << 31, int64_t{1} << 31, 0, 0}}});
       return Summed(b);
     }},
    {"TiledConstant",
     [] {
       OpCaseBuilder b("b");
       b.X({1}).I("s", {1 << 26}).I("t", {1 << 10}).Node("ConstantOfShape", {"s"}, "c").Node("Tile", {"c", "t"}, "d");
       b.Node("ReduceSum", {"d"}, "r").Node("Mul", {"x", "r"}, "e");
       return Summed(b);
     }},
    {"NoInputs", [] {
       return OpCaseBuilder("b").X({1}).Node("Max", {}, "m").Node("Add", {"x", "m"}, "y").Done();
     }}};

class HostileSizes : public testing::TestWithParam<Hostile> {};

TEST_P(HostileSizes, AreRefusedInWords) {
  const absl::Status status =
      Engine::Create(GetParam().graph().problem, {.memory_budget_bytes = int64_t{64} << 20}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) || absl::IsResourceExhausted(status))
      << status;
}

INSTANTIATE_TEST_SUITE_P(Graphs, HostileSizes, testing::ValuesIn(kHostile),
                         [](const auto& info) { return info.param.name; });

JacobianProblem WithX(OpCase op, std::vector<float> numbers) {
  auto bytes = std::make_shared<std::vector<std::byte>>(numbers.size() * sizeof(float));
  std::memcpy(bytes->data(), numbers.data(), bytes->size());
  op.problem.inputs[0].second.bytes = std::move(bytes);
  return op.problem;
}

TEST(EdgeNumbers, LogSumExpOfNothingIsMinusInfinityWithoutADerivative) {
  const float none = -std::numeric_limits<float>::infinity();
  const JacobianProblem problem =
      WithX(OpCaseBuilder("b").X({2}).I("a", {1}).Node("ReduceLogSumExp", {"x", "a"}, "y").Done(),
            {none, none, 0, none, 1, 1});
  for (const auto backend : {BackendKind::kReference, BackendKind::kCpu}) {
    const Jacobian jacobian = Compute(problem, backend, DType::kFloat32);
    EXPECT_EQ(jacobian.value[0], none);
    EXPECT_EQ(jacobian.value[1], 0);
    EXPECT_EQ(jacobian.blocks[0], (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0.5, 0.5}));
  }
}

TEST(EdgeNumbers, ReluKeepsWhatIsNoNumber) {
  const JacobianProblem problem =
      WithX(OpCaseBuilder("b").X({1}).Node("Relu", {"x"}, "y").Done(), {std::nanf(""), -1, 2});
  for (const auto backend : {BackendKind::kReference, BackendKind::kCpu}) {
    const Jacobian jacobian = Compute(problem, backend, DType::kFloat32);
    EXPECT_TRUE(std::isnan(jacobian.value[0]));
    EXPECT_EQ(jacobian.value[1], 0);
    EXPECT_EQ(jacobian.value[2], 2);
  }
}

}  // namespace
}  // namespace jacserve::worker
