// Damaged files: an error in words or a graph that still holds together, never a crash.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/worker/model/onnx_builder.h"

namespace jacserve::worker {
namespace {

// A model with every kind of content, and few bytes.
std::string VariedModel() {
  onnx::ModelProto model = SmallModel();
  onnx::NodeProto& node = *model.mutable_graph()->mutable_node(1);
  AddAttribute(node, "axis", onnx::AttributeProto::INT).set_i(-1);
  AddAttribute(node, "pads", onnx::AttributeProto::INTS).add_ints(3);
  AddAttribute(node, "mode", onnx::AttributeProto::STRING).set_s("same");
  onnx::TensorProto& tensor = *AddAttribute(node, "value", onnx::AttributeProto::TENSOR).mutable_t();
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(2);
  tensor.set_raw_data(std::string(16, '\1'));
  return model.SerializeAsString();
}

void ExpectErrorOrSoundGraph(const std::string& bytes, int& accepted) {
  absl::StatusOr<std::shared_ptr<const Graph>> graph = Import(bytes);
  if (!graph.ok()) {
    ASSERT_TRUE(graph.status().code() == absl::StatusCode::kInvalidArgument ||
                graph.status().code() == absl::StatusCode::kUnimplemented)
        << graph.status();
    ASSERT_FALSE(graph.status().message().empty());
    return;
  }
  ++accepted;
  std::set<std::string> made = {""};
  for (const GraphValue& input : (*graph)->inputs) {
    ASSERT_TRUE(made.insert(input.name).second);
    ASSERT_EQ(input.shape.size(), input.symbols.size());
  }
  for (const auto& [name, tensor] : (*graph)->initializers) {
    ASSERT_TRUE(made.insert(name).second);
    ASSERT_EQ(static_cast<int64_t>(tensor.bytes->size()), *ByteCount(tensor.shape, tensor.dtype));
  }
  for (const GraphNode& node : (*graph)->nodes) {
    for (const std::string& input : node.inputs) ASSERT_TRUE(made.contains(input));
    for (const std::string& output : node.outputs) {
      ASSERT_TRUE(output.empty() || made.insert(output).second);
    }
  }
  for (const GraphValue& output : (*graph)->outputs) ASSERT_TRUE(made.contains(output.name));
}

TEST(OnnxDamageTest, TheUndamagedModelIsAccepted) {
  int accepted = 0;
  ExpectErrorOrSoundGraph(VariedModel(), accepted);
  EXPECT_EQ(accepted, 1);
}

TEST(OnnxDamageTest, EveryTruncationIsRefusedOrSound) {
  const std::string bytes = VariedModel();
  int accepted = 0;
  for (size_t size = 0; size < bytes.size(); ++size) ExpectErrorOrSoundGraph(bytes.substr(0, size), accepted);
  // A cut between two fields of the outermost message leaves a valid file, which may lack nothing that is needed.
  EXPECT_LE(accepted, 5);
}

TEST(OnnxDamageTest, EveryByteMayHoldAnything) {
  const std::string bytes = VariedModel();
  int accepted = 0;
  for (size_t position = 0; position < bytes.size(); ++position) {
    for (int value = 0; value < 256; ++value) {
      std::string damaged = bytes;
      damaged[position] = static_cast<char>(value);
      ExpectErrorOrSoundGraph(damaged, accepted);
      if (HasFatalFailure()) FAIL() << "byte " << position << " as " << value;
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(OnnxDamageTest, RandomBytesAreRefused) {
  std::mt19937 random(11);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    ExpectErrorOrSoundGraph(bytes, accepted);
  }
  EXPECT_EQ(accepted, 0);
}

TEST(OnnxDamageTest, OtherFilesAreRefused) {
  for (const std::string& bytes : {std::string(), std::string("PK\3\4"), std::string("\x93NUMPY"), std::string("hello"),
                                   std::string(1000, '\0')}) {
    EXPECT_EQ(Import(bytes).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace jacserve::worker
