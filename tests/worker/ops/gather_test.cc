// Indices out of range that show themselves only with the numbers: what they name becomes NaN and nothing outside of
// memory is read or written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/worker/engine/golden_case.h"
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsNan;

constexpr int64_t kFar = int64_t{1} << 40;

struct Result {
  std::vector<double> value, rows;
};

// Rows with respect to the weight of the case.
Result Compute(const OpCase& op, BackendKind backend) {
  JacobianProblem problem = op.problem;
  problem.wrt_inputs.clear();
  problem.precision = DType::kFloat64;
  auto engine = Engine::Create(std::move(problem), {backend, int64_t{64} << 20, 1});
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (!engine.ok()) return {};
  Gather gather((*engine)->layout(), {0, (*engine)->layout().rows});
  EXPECT_TRUE((*engine)->ComputeRows({0, (*engine)->layout().rows}, gather, [] { return false; }).ok());
  return {ToDoubles(*(*engine)->Value(), DType::kFloat64), ToDoubles(gather.block(0), DType::kFloat64)};
}

TEST(GatherTest, AnIndexOutOfRangeMakesItsSampleNan) {
  const OpCase op = OpCaseBuilder("tokens")
                        .IntInput("ids", {1}, {-2, 2, kFar})
                        .W("w", {2, 1})
                        .Node("Gather", {"w", "ids"}, "y")
                        .Done();
  for (const auto backend : {BackendKind::kReference, BackendKind::kCpu}) {
    const Result result = Compute(op, backend);
    EXPECT_THAT(result.value, ElementsAre(ToDoubles(op.problem.weights[0].second)[0], IsNan(), IsNan()));
    EXPECT_THAT(result.rows, ElementsAre(1, 0, IsNan(), IsNan(), IsNan(), IsNan()));
  }
}

// Floats that are known when the graph is compiled: every operator that goes through them without arithmetic.
TEST(GatherTest, KnownFloatsKeepTheirValues) {
  const std::vector<float> known = {1.5f, -2.25f, 3.0f, 0.1f};
  const OpCase op = OpCaseBuilder("known")
                        .X({2}, 1)
                        .W("w", {1})
                        .I("ids", {3, 0})
                        .I("end", {2})
                        .I("zero", {0})
                        .Node("Constant", {}, "c", {{"value_floats", known}})
                        .Node("Gather", {"c", "ids"}, "g")
                        .Node("GatherElements", {"c", "ids"}, "h")
                        .Node("Slice", {"c", "zero", "end"}, "s")
                        .Node("Concat", {"g", "h", "s"}, "all", {{"axis", int64_t{0}}})
                        .Node("ReduceSum", {"x"}, "sum", {{"keepdims", int64_t{0}}})
                        .Node("Mul", {"sum", "sum"}, "square")
                        .Node("Sub", {"square", "square"}, "nothing")
                        .Node("Add", {"all", "nothing"}, "y")
                        .Done();
  for (const auto backend : {BackendKind::kReference, BackendKind::kCpu}) {
    EXPECT_THAT(Compute(op, backend).value, ElementsAre(0.1f, 1.5, 0.1f, 1.5, 1.5, -2.25));
  }
}

TEST(GatherTest, AWriteOutOfRangeMakesItsSampleNan) {
  const OpCase op = OpCaseBuilder("write")
                        .X({2})
                        .IntInput("ids", {1}, {1, -3, -kFar})
                        .W("w", {1, 1})
                        .Node("Mul", {"x", "w"}, "m")
                        .I("zero", {0})
                        .I("one", {1})
                        .Node("Slice", {"m", "zero", "one", "one"}, "u")
                        .Node("ScatterElements", {"x", "ids", "u"}, "y", {{"axis", int64_t{1}}})
                        .Done();
  const Result result = Compute(op, BackendKind::kReference);
  EXPECT_FALSE(std::isnan(result.value[0]) || std::isnan(result.value[1]));
  EXPECT_THAT(std::vector<double>(result.value.begin() + 2, result.value.end()), Each(IsNan()));
}

}  // namespace
}  // namespace jacserve::worker
