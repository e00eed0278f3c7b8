// Which graphs count further than float32: what they are given decides, and what they do with it.
#include "worker/engine/integer_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/ops/op_builder.h"
#include "worker/engine/check_problem.h"

namespace jacserve::worker {
namespace {

std::string Beyond(const OpCase& op) {
  const auto bindings = CheckProblem(op.problem);
  EXPECT_TRUE(bindings.ok()) << bindings.status();
  const auto program = CompileSampleProgram(*op.graph, *bindings);
  EXPECT_TRUE(program.ok()) << program.status();
  return IntegersBeyondFloat32(*program, op.problem).value_or("");
}

OpCaseBuilder Ids(const Ints& ids) {
  OpCaseBuilder builder("ids");
  builder.W("w", {8}).IntInput("ids", {2}, ids).I("one", {1}).I("k", {7919}).I("q", {8});
  return builder;
}
const Ints kSmall = {1, 2, 3, 4, 5, 0}, kLarge = {1, 2, 3, 4, 16777215, 0};

TEST(IntegerBounds, IdsThatAreLookedUpNeedNoMore) {
  EXPECT_EQ(Beyond(Ids(kLarge).Node("Gather", {"w", "ids"}, "y").Done()), "");
}

TEST(IntegerBounds, FollowFromTheNumbersThatAreGiven) {
  const auto sum = [](const Ints& ids) {
    return Beyond(Ids(ids)
                      .Node("Add", {"ids", "one"}, "i")
                      .Node("Add", {"i", "one"}, "j")
                      .Node("Gather", {"w", "j"}, "y")
                      .Done());
  };
  EXPECT_EQ(sum(kSmall), "");
  EXPECT_EQ(sum(kLarge), "node node_j (Add) counts to 1.67772e+07");
}

TEST(IntegerBounds, PositionsByARunningSumOfAMaskStaySmall) {
  EXPECT_EQ(Beyond(Ids(kLarge)
                       .Node("Greater", {"ids", "one"}, "m")
                       .Node("Cast", {"m"}, "c", {{"to", int64_t{7}}})
                       .Node("CumSum", {"c", "one"}, "s")
                       .Node("Mul", {"s", "c"}, "p")
                       .Node("Add", {"p", "one"}, "i")
                       .Node("Gather", {"w", "i"}, "y")
                       .Done()),
            "");
}

TEST(IntegerBounds, ProductsCountFar) {
  EXPECT_THAT(Beyond(Ids(kLarge)
                         .Node("Mul", {"ids", "k"}, "p")
                         .Node("Mod", {"p", "q"}, "i")
                         .Node("Gather", {"w", "i"}, "y")
                         .Done()),
              testing::HasSubstr("node node_p (Mul) counts to 1.32"));
  EXPECT_EQ(Beyond(Ids(kLarge)
                       .Node("Mod", {"ids", "q"}, "i")
                       .Node("Mul", {"i", "k"}, "p")
                       .Node("Mod", {"p", "q"}, "j")
                       .Node("Gather", {"w", "j"}, "y")
                       .Done()),
            "");
}

TEST(IntegerBounds, FloatsThatBecomeIntegersAreUnknown) {
  OpCaseBuilder builder("floats");
  builder.W("w", {8}).X({2}).I("one", {1}).I("zero", {0}).I("last", {7});
  builder.Node("Cast", {"x"}, "c", {{"to", int64_t{7}}});
  OpCaseBuilder clipped = builder;
  EXPECT_EQ(Beyond(builder.Node("Add", {"c", "one"}, "i").Node("Gather", {"w", "i"}, "y").Done()),
            "node node_i (Add) counts to an unknown number");
  EXPECT_EQ(Beyond(clipped.Node("Clip", {"c", "zero", "last"}, "b")
                       .Node("Add", {"b", "one"}, "i")
                       .Node("Gather", {"w", "i"}, "y")
                       .Done()),
            "");
}

TEST(Opset, ThatIsTooNewIsNamed) {
  const OpCase op = OpCaseBuilder("new").Opset(99).X({1}).Node("Mul", {"x", "x"}, "y").Done();
  const absl::Status status = Engine::Create(op.problem, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("opset 99 is newer than the newest known, 28"));
}

}  // namespace
}  // namespace jacserve::worker
