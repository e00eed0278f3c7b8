// What is data and what is a parameter, as DescribeModel answers it.
#include "worker/service/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/model/onnx_builder.h"

namespace jacserve::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> Names(const google::protobuf::RepeatedPtrField<v1::TensorInfo>& list) {
  std::vector<std::string> names;
  for (const v1::TensorInfo& info : list) names.push_back(info.name());
  return names;
}

TEST(DescribeTest, InitializersAreParametersOfAPlainFile) {
  const v1::ModelDescription description = DescribeGraph(**Import(SmallModel()), {});
  EXPECT_THAT(Names(description.inputs()), ElementsAre("x"));
  EXPECT_THAT(Names(description.parameters()), ElementsAre("W"));
  EXPECT_THAT(Names(description.outputs()), ElementsAre("y"));
  EXPECT_THAT(description.inputs(0).shape(), ElementsAre(-1, 2));
  EXPECT_THAT(description.inputs(0).symbols(), ElementsAre("N", ""));
  EXPECT_EQ(description.parameters(0).dtype(), v1::DATA_TYPE_FLOAT32);
  EXPECT_EQ(description.opset_version(), 17);
  EXPECT_EQ(description.producer(), "tests 1");
}

TEST(DescribeTest, FixedInputsAreParametersOfAFunctionalFile) {
  onnx::ModelProto model = SmallModel();
  AddValue(*model.mutable_graph()->add_input(), "bias", {3});
  AddValue(*model.mutable_graph()->add_input(), "seed", {1}, onnx::TensorProto::INT64);
  AddValue(*model.mutable_graph()->add_input(), "half", {3}, onnx::TensorProto::FLOAT16);
  const v1::ModelDescription description = DescribeGraph(**Import(model), {});
  EXPECT_THAT(Names(description.inputs()), ElementsAre("x", "seed", "half"));
  EXPECT_THAT(Names(description.parameters()), ElementsAre("bias"));
  EXPECT_EQ(description.inputs(2).dtype(), v1::DATA_TYPE_UNSPECIFIED);
}

TEST(DescribeTest, InputOfFixedBatchIsDataWhenTheFileHasWeights) {
  onnx::ModelProto model = SmallModel();
  AddValue(*model.mutable_graph()->mutable_input(0), "x", {5, 2});
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->clear_dim();
  const v1::ModelDescription description = DescribeGraph(**Import(model), {});
  EXPECT_THAT(Names(description.inputs()), ElementsAre("x"));
  EXPECT_THAT(Names(description.parameters()), ElementsAre("W"));
}

TEST(DescribeTest, ReportIsPassedOn) {
  GraphReport report;
  report.operators = {{"MatMul", "", 2, true, {"mul"}}, {"Magic", "com.x", 1, false, {}}};
  report.samples_independent = false;
  report.coupling = "node 'mean'";
  const v1::ModelDescription description = DescribeGraph(**Import(SmallModel()), report);
  ASSERT_EQ(description.operators_size(), 2);
  EXPECT_EQ(description.operators(0).count(), 2);
  EXPECT_THAT(description.operators(0).nodes(), ElementsAre("mul"));
  EXPECT_EQ(description.operators(1).domain(), "com.x");
  EXPECT_FALSE(description.operators(1).supported());
  EXPECT_THAT(description.operators(1).nodes(), IsEmpty());
  EXPECT_FALSE(description.samples_independent());
  EXPECT_EQ(description.coupling(), "node 'mean'");
}

}  // namespace
}  // namespace jacserve::worker
