// What a graph is described as: its operators, and whether its samples are independent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/worker/model/onnx_builder.h"
#include "worker/engine/engine.h"

namespace jacserve::worker {
namespace {

TEST(Report, CountsWhatSomeOutputNeeds) {
  onnx::ModelProto model = SmallModel();
  AddNode(model, "Relu", {"x"}, {"unread"});
  AddNode(model, "NonZero", {"unread"}, {"unread_either"});
  const GraphReport report = ReportOn(**Import(model));
  std::vector<std::string> counted;
  for (const GraphReport::OpCount& op : report.operators) {
    counted.push_back(absl::StrCat(op.op_type, " ", op.count, op.supported ? "" : " not supported"));
  }
  EXPECT_THAT(counted, testing::ElementsAre("MatMul 1", "Relu 1"));
  EXPECT_TRUE(report.samples_independent) << report.coupling;
}

}  // namespace
}  // namespace jacserve::worker
