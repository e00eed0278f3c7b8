// Everything that a file can make big has a limit: met exactly it passes, one more is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/worker/model/onnx_builder.h"

namespace jacserve::worker {
namespace {

using onnx::AttributeProto;

TEST(OnnxLimitsTest, EachLimitIsExact) {
  struct Case {
    const char* what;
    std::function<void(ImportLimits&, int64_t)> set;
    int64_t just_enough;
  };
  onnx::ModelProto model = SmallModel();
  onnx::NodeProto& node = *model.mutable_graph()->mutable_node(1);
  AttributeProto& ints = AddAttribute(node, "ints", AttributeProto::INTS);
  for (int i = 0; i < 30; ++i) ints.add_ints(i);
  node.set_name(std::string(200, 'n'));
  const std::string bytes = model.SerializeAsString();

  const Case cases[] = {
      {"file_bytes", [](ImportLimits& l, int64_t n) { l.file_bytes = n; }, static_cast<int64_t>(bytes.size())},
      {"nodes", [](ImportLimits& l, int64_t n) { l.nodes = n; }, 2},
      {"tensor_bytes", [](ImportLimits& l, int64_t n) { l.tensor_bytes = n; }, 24},
      {"attribute_elements", [](ImportLimits& l, int64_t n) { l.attribute_elements = n; }, 30},
      {"name_bytes", [](ImportLimits& l, int64_t n) { l.name_bytes = n; }, 200},
      {"rank", [](ImportLimits& l, int64_t n) { l.rank = n; }, 2},
      // model, graph, input, type, tensor type, shape, axis
      {"protobuf_depth", [](ImportLimits& l, int64_t n) { l.protobuf_depth = static_cast<int>(n); }, 7},
  };
  for (const Case& c : cases) {
    ImportLimits limits;
    c.set(limits, c.just_enough);
    EXPECT_TRUE(Import(bytes, limits).ok()) << c.what << ": " << Import(bytes, limits).status();
    c.set(limits, c.just_enough - 1);
    EXPECT_EQ(Import(bytes, limits).status().code(), absl::StatusCode::kInvalidArgument) << c.what;
  }
}

TEST(OnnxLimitsTest, EveryListAndTextIsLimited) {
  const std::pair<AttributeProto::AttributeType, std::function<void(AttributeProto&)>> cases[] = {
      {AttributeProto::INTS,
       [](AttributeProto& a) {
         for (int i = 0; i < 11; ++i) a.add_ints(1);
       }},
      {AttributeProto::FLOATS,
       [](AttributeProto& a) {
         for (int i = 0; i < 11; ++i) a.add_floats(1);
       }},
      {AttributeProto::STRINGS,
       [](AttributeProto& a) {
         for (int i = 0; i < 11; ++i) a.add_strings(std::string(1, 's'));
       }},
      {AttributeProto::STRINGS, [](AttributeProto& a) { a.add_strings(std::string(11, 's')); }},
      {AttributeProto::STRING, [](AttributeProto& a) { a.set_s("eleven char"); }},
  };
  for (const auto& [type, fill] : cases) {
    onnx::ModelProto model = SmallModel();
    fill(AddAttribute(*model.mutable_graph()->mutable_node(0), "a", type));
    ImportLimits limits;
    limits.attribute_elements = 11;
    EXPECT_TRUE(Import(model, limits).ok()) << type;
    limits.attribute_elements = 10;
    EXPECT_EQ(Import(model, limits).status().code(), absl::StatusCode::kInvalidArgument) << type;
  }
}

TEST(OnnxLimitsTest, FieldsAreCountedBeforeObjectsAreMade) {
  onnx::ModelProto model = SmallModel();
  for (int i = 0; i < 1000; ++i) model.mutable_graph()->add_node();
  ImportLimits limits;
  limits.fields = 500;
  const absl::Status status = Import(model, limits).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("more than 500 fields"));
}

TEST(OnnxLimitsTest, DeepNestingIsRefusedWithoutAStack) {
  // graph -> node -> attribute -> graph -> ..., as bytes from the inside out: far deeper than any stack would bear.
  std::string inner;
  const auto wrap = [&](int field) {
    std::string size;
    for (uint64_t rest = inner.size(); true; rest >>= 7) {
      size.push_back(static_cast<char>(rest >= 128 ? rest % 128 + 128 : rest));
      if (rest < 128) break;
    }
    inner = static_cast<char>(field << 3 | 2) + size + inner;
  };
  for (int i = 0; i < 3000; ++i) {
    wrap(6);  // AttributeProto.g
    wrap(5);  // NodeProto.attribute
    wrap(1);  // GraphProto.node
  }
  wrap(7);  // ModelProto.graph
  const absl::Status status = Import(inner).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("nests deeper"));
}

TEST(OnnxLimitsTest, ClaimedSizesAreNotAllocated) {
  onnx::ModelProto model = SmallModel();
  onnx::TensorProto& tensor = *model.mutable_graph()->mutable_initializer(0);
  tensor.clear_dims();
  tensor.add_dims(int64_t{1} << 28);  // 1 GiB claimed, 24 bytes there
  EXPECT_EQ(Import(model).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace jacserve::worker
