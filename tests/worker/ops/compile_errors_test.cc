// What is said of a graph that compiles neither for one sample nor for the whole batch: the user's own numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/ops/op_builder.h"
#include "worker/engine/engine.h"

namespace jacserve::worker {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string ErrorOf(const OpCase& op) {
  const absl::Status status = Engine::Create(op.problem, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

// Three samples of four.
TEST(CompileErrors, OfABatchThatFitsNoShapeNameTheRealBatchFirst) {
  const std::string error =
      ErrorOf(OpCaseBuilder("r").X({4}).I("shape", {5, 5}).Node("Reshape", {"x", "shape"}, "y").Done());
  const size_t also = error.find("; and for one sample at a time: ");
  ASSERT_NE(also, std::string::npos) << error;
  EXPECT_THAT(error.substr(0, also), HasSubstr("[3, 4]")) << error;
  EXPECT_THAT(error.substr(also), HasSubstr("node_y")) << error;
}

TEST(CompileErrors, ThatAreTheSameEitherWayAreSaidOnce) {
  const std::string error =
      ErrorOf(OpCaseBuilder("t").X({4}).Node("Transpose", {"x"}, "y", {{"perm", Ints{0, 1, 2}}}).Done());
  EXPECT_THAT(error, Not(HasSubstr("one sample at a time"))) << error;
}

}  // namespace
}  // namespace jacserve::worker
