// What the importer reads out of a model, and what it refuses in whose words.
#include "worker/model/onnx_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/worker/model/onnx_builder.h"

namespace jacserve::worker {
namespace {

using onnx::AttributeProto;
using onnx::TensorProto;
using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
std::vector<T> Numbers(const HostTensor& tensor) {
  return {tensor.data<T>(), tensor.data<T>() + Elements(tensor.shape)};
}

TEST(OnnxImportTest, ReadsASmallModel) {
  absl::StatusOr<std::shared_ptr<const Graph>> graph = Import(SmallModel());
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Graph& g = **graph;
  EXPECT_EQ(g.ir_version, 8);
  EXPECT_EQ(g.opset_version, 17);
  EXPECT_EQ(g.producer, "tests 1");
  ASSERT_EQ(g.inputs.size(), 1u);
  EXPECT_EQ(g.inputs[0].name, "x");
  EXPECT_EQ(g.inputs[0].dtype, DType::kFloat32);
  EXPECT_THAT(g.inputs[0].shape, ElementsAre(-1, 2));
  EXPECT_THAT(g.inputs[0].symbols, ElementsAre("N", ""));
  ASSERT_EQ(g.outputs.size(), 1u);
  EXPECT_EQ(g.outputs[0].name, "y");
  ASSERT_EQ(g.nodes.size(), 2u);
  EXPECT_EQ(g.nodes[0].name, "mul");
  EXPECT_EQ(g.nodes[1].name, "Relu_1");
  EXPECT_THAT(g.nodes[0].inputs, ElementsAre("x", "W"));
  ASSERT_TRUE(g.initializers.contains("W"));
  EXPECT_THAT(g.initializers.at("W").shape, ElementsAre(2, 3));
  EXPECT_THAT(Numbers<float>(g.initializers.at("W")), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(OnnxImportTest, InitializerThatIsAnInputTooIsNoInput) {
  onnx::ModelProto model = SmallModel();
  AddValue(*model.mutable_graph()->add_input(), "W", {2, 3});
  absl::StatusOr<std::shared_ptr<const Graph>> graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ((*graph)->inputs.size(), 1u);
  EXPECT_EQ((*graph)->inputs[0].name, "x");
  EXPECT_TRUE((*graph)->initializers.contains("W"));
}

TEST(OnnxImportTest, ReadsEveryElementTypeRawAndAsNumbers) {
  struct Case {
    TensorProto::DataType type;
    DType dtype;
    std::function<void(TensorProto&)> numbers;  // 0, 1, 2
    std::string raw;
  };
  const auto raw = [](auto... values) {
    std::string bytes;
    (bytes.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
    return bytes;
  };
  const Case cases[] = {
      {TensorProto::FLOAT, DType::kFloat32,
       [](TensorProto& t) {
         for (int i : {0, 1, 2}) t.add_float_data(i);
       },
       raw(0.f, 1.f, 2.f)},
      {TensorProto::DOUBLE, DType::kFloat64,
       [](TensorProto& t) {
         for (int i : {0, 1, 2}) t.add_double_data(i);
       },
       raw(0., 1., 2.)},
      {TensorProto::INT32, DType::kInt32,
       [](TensorProto& t) {
         for (int i : {0, 1, 2}) t.add_int32_data(i);
       },
       raw(int32_t{0}, int32_t{1}, int32_t{2})},
      {TensorProto::INT64, DType::kInt64,
       [](TensorProto& t) {
         for (int i : {0, 1, 2}) t.add_int64_data(i);
       },
       raw(int64_t{0}, int64_t{1}, int64_t{2})},
      {TensorProto::BOOL, DType::kBool,
       [](TensorProto& t) {
         for (int i : {0, 1, 2}) t.add_int32_data(i);
       },
       raw('\0', '\1', '\2')},
  };
  for (const Case& c : cases) {
    for (const bool is_raw : {false, true}) {
      onnx::ModelProto model = SmallModel();
      TensorProto& tensor = *model.mutable_graph()->mutable_initializer(0);
      tensor.Clear();
      tensor.set_name("W");
      tensor.set_data_type(c.type);
      tensor.add_dims(3);
      if (is_raw) {
        tensor.set_raw_data(c.raw);
      } else {
        c.numbers(tensor);
      }
      absl::StatusOr<std::shared_ptr<const Graph>> graph = Import(model);
      ASSERT_TRUE(graph.ok()) << graph.status();
      const HostTensor& read = (*graph)->initializers.at("W");
      EXPECT_EQ(read.dtype, c.dtype);
      std::string expected = c.raw;
      if (c.dtype == DType::kBool) expected[2] = 1;  // true is one bit pattern
      EXPECT_EQ(std::string(read.data<char>(), read.bytes->size()), expected) << NameOf(c.dtype) << is_raw;
    }
  }
}

TEST(OnnxImportTest, ReadsScalarsAndEmptyTensors) {
  onnx::ModelProto model = SmallModel();
  AddInitializer(model, "scalar", {}, {4});
  AddInitializer(model, "empty", {0, 7}, {});
  AddNode(model, "Foo", {"scalar", "empty", ""}, {"unused", ""});
  absl::StatusOr<std::shared_ptr<const Graph>> graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Numbers<float>((*graph)->initializers.at("scalar")), ElementsAre(4));
  EXPECT_EQ((*graph)->initializers.at("empty").bytes->size(), 0u);
  EXPECT_THAT((*graph)->nodes[2].inputs, ElementsAre("scalar", "empty", ""));
}

TEST(OnnxImportTest, ReadsEveryKindOfAttribute) {
  onnx::ModelProto model = SmallModel();
  onnx::NodeProto& node = *model.mutable_graph()->mutable_node(1);
  AddAttribute(node, "i", AttributeProto::INT).set_i(-5);
  AddAttribute(node, "f", AttributeProto::FLOAT).set_f(0.5);
  AddAttribute(node, "s", AttributeProto::STRING).set_s("SAME_UPPER");
  AttributeProto& ints = AddAttribute(node, "ints", AttributeProto::INTS);
  ints.add_ints(1);
  ints.add_ints(2);
  AddAttribute(node, "floats", AttributeProto::FLOATS).add_floats(2.5);
  AddAttribute(node, "strings", AttributeProto::STRINGS).add_strings("Tanh");
  TensorProto& tensor = *AddAttribute(node, "t", AttributeProto::TENSOR).mutable_t();
  tensor.set_data_type(TensorProto::INT64);
  tensor.add_dims(1);
  tensor.add_int64_data(9);
  absl::StatusOr<std::shared_ptr<const Graph>> graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto& attributes = (*graph)->nodes[1].attributes;
  EXPECT_EQ(std::get<int64_t>(attributes.at("i")), -5);
  EXPECT_EQ(std::get<float>(attributes.at("f")), 0.5f);
  EXPECT_EQ(std::get<std::string>(attributes.at("s")), "SAME_UPPER");
  EXPECT_THAT(std::get<std::vector<int64_t>>(attributes.at("ints")), ElementsAre(1, 2));
  EXPECT_THAT(std::get<std::vector<float>>(attributes.at("floats")), ElementsAre(2.5));
  EXPECT_THAT(std::get<std::vector<std::string>>(attributes.at("strings")), ElementsAre("Tanh"));
  EXPECT_THAT(Numbers<int64_t>(std::get<HostTensor>(attributes.at("t"))), ElementsAre(9));
}

TEST(OnnxImportTest, TypesThatAreNotComputedWithAreToldApart) {
  onnx::ModelProto model = SmallModel();
  AddValue(*model.mutable_graph()->add_input(), "half", {4}, TensorProto::FLOAT16);
  model.mutable_graph()->add_input()->set_name("untyped");
  AddInitializer(model, "unused", {2}, {}).set_data_type(TensorProto::FLOAT16);
  absl::StatusOr<std::shared_ptr<const Graph>> graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_FALSE((*graph)->inputs[1].dtype.has_value());
  EXPECT_TRUE((*graph)->inputs[1].has_shape);
  EXPECT_FALSE((*graph)->inputs[2].dtype.has_value());
  EXPECT_FALSE((*graph)->inputs[2].has_shape);
  EXPECT_FALSE((*graph)->initializers.contains("unused"));
}

TEST(OnnxImportTest, DomainsOfTheStandardSetAreOne) {
  onnx::ModelProto model = SmallModel();
  model.mutable_opset_import(0)->set_domain("ai.onnx");
  onnx::OperatorSetIdProto& other = *model.add_opset_import();
  other.set_domain("ai.onnx.ml");
  other.set_version(2);
  model.mutable_graph()->mutable_node(0)->set_domain("ai.onnx");
  model.mutable_graph()->mutable_node(1)->set_domain("com.microsoft");
  absl::StatusOr<std::shared_ptr<const Graph>> graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->opset_version, 17);
  EXPECT_EQ((*graph)->nodes[0].domain, "");
  EXPECT_EQ((*graph)->nodes[1].domain, "com.microsoft");
}

struct Refusal {
  const char* what;
  std::function<void(onnx::ModelProto&)> damage;
  absl::StatusCode code;
  const char* words;
};

TensorProto& W(onnx::ModelProto& model) { return *model.mutable_graph()->mutable_initializer(0); }
onnx::NodeProto& Mul(onnx::ModelProto& model) { return *model.mutable_graph()->mutable_node(0); }

void ExpectRefusals(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    onnx::ModelProto model = SmallModel();
    refusal.damage(model);
    const absl::Status status = Import(model).status();
    EXPECT_EQ(status.code(), refusal.code) << refusal.what << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(refusal.words)) << refusal.what;
  }
}

TEST(OnnxImportTest, RefusesTensorsThatDoNotFit) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ExpectRefusals({
      {"too few", [](auto& m) { W(m).mutable_float_data()->RemoveLast(); }, kInvalid, "'W'"},
      {"too many", [](auto& m) { W(m).add_float_data(1); }, kInvalid, "'W'"},
      {"no data", [](auto& m) { W(m).clear_float_data(); }, kInvalid, "'W'"},
      {"twice", [](auto& m) { W(m).set_raw_data(std::string(24, 'x')); }, kInvalid, "twice"},
      {"other list", [](auto& m) { W(m).set_data_type(TensorProto::INT64); }, kInvalid, "'W'"},
      {"mixed lists", [](auto& m) { W(m).add_int32_data(1); }, kInvalid, "'W'"},
      {"negative axis", [](auto& m) { W(m).set_dims(0, -2); }, kInvalid, "negative"},
      {"overflow", [](auto& m) { W(m).set_dims(0, int64_t{1} << 62); }, kInvalid, "2^62"},
      {"raw size",
       [](auto& m) {
         W(m).clear_float_data();
         W(m).set_raw_data(std::string(23, 'x'));
       },
       kInvalid, "23 bytes"},
      {"half", [](auto& m) { W(m).set_data_type(TensorProto::FLOAT16); }, kInvalid, "FLOAT16"},
      {"unknown type", [](auto& m) { W(m).set_data_type(77); }, kInvalid, "type 77"},
      {"text", [](auto& m) { W(m).set_data_type(TensorProto::STRING); }, kInvalid, "STRING"},
      {"external", [](auto& m) { W(m).set_data_location(TensorProto::EXTERNAL); }, kInvalid, "external_data=False"},
      {"external entry", [](auto& m) { W(m).add_external_data()->set_key("location"); }, kInvalid, "another file"},
      {"segment", [](auto& m) { W(m).mutable_segment()->set_begin(0); }, kInvalid, "segments"},
      {"no name", [](auto& m) { W(m).clear_name(); }, kInvalid, "no name"},
      {"given twice", [](auto& m) { *m.mutable_graph()->add_initializer() = W(m); }, kInvalid, "'W'"},
  });
}

TEST(OnnxImportTest, RefusesGraphsThatAreNotConnected) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ExpectRefusals({
      {"nothing makes it", [](auto& m) { Mul(m).set_input(1, "V"); }, kInvalid, "'V'"},
      {"made twice", [](auto& m) { Mul(m).set_output(0, "y"); }, kInvalid, "'y'"},
      {"made over an input", [](auto& m) { Mul(m).set_output(0, "x"); }, kInvalid, "'x'"},
      {"made over an initializer", [](auto& m) { Mul(m).set_output(0, "W"); }, kInvalid, "'W'"},
      {"circle", [](auto& m) { Mul(m).set_input(1, "y"); }, kInvalid, "circle"},
      {"itself", [](auto& m) { Mul(m).set_input(1, "h"); }, kInvalid, "circle"},
      {"output", [](auto& m) { m.mutable_graph()->mutable_output(0)->set_name("z"); }, kInvalid, "'z'"},
      {"no output", [](auto& m) { m.mutable_graph()->clear_output(); }, kInvalid, "no output"},
      {"output twice", [](auto& m) { *m.mutable_graph()->add_output() = m.graph().output(0); }, kInvalid, "'y'"},
      {"input twice", [](auto& m) { *m.mutable_graph()->add_input() = m.graph().input(0); }, kInvalid, "'x'"},
      {"nameless input", [](auto& m) { m.mutable_graph()->add_input(); }, kInvalid, "no name"},
      {"no operator", [](auto& m) { Mul(m).clear_op_type(); }, kInvalid, "node 0"},
      {"no opset", [](auto& m) { m.clear_opset_import(); }, kInvalid, "operator set"},
      {"two opsets", [](auto& m) { m.add_opset_import()->set_version(18); }, kInvalid, "two versions"},
      {"no graph", [](auto& m) { m.clear_graph(); }, kInvalid, "no graph"},
  });
}

TEST(OnnxImportTest, RefusesAttributesThatAreNotPlainValues) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  const auto attribute = [](AttributeProto::AttributeType type) {
    return [type](onnx::ModelProto& m) { AddAttribute(Mul(m), "a", type); };
  };
  ExpectRefusals({
      {"subgraph", attribute(AttributeProto::GRAPH), kUnimplemented, "'mul' (MatMul), attribute 'a' holds a subgraph"},
      {"subgraphs", attribute(AttributeProto::GRAPHS), kUnimplemented, "subgraph"},
      {"sparse", attribute(AttributeProto::SPARSE_TENSOR), kUnimplemented, "sparse"},
      {"type", attribute(AttributeProto::TYPE_PROTO), kUnimplemented, "TYPE_PROTO"},
      {"tensors", attribute(AttributeProto::TENSORS), kUnimplemented, "TENSORS"},
      {"no type", attribute(AttributeProto::UNDEFINED), kInvalid, "no type"},
      {"no tensor", attribute(AttributeProto::TENSOR), kInvalid, "no tensor"},
      {"twice",
       [](auto& m) {
         AddAttribute(Mul(m), "a", AttributeProto::INT);
         AddAttribute(Mul(m), "a", AttributeProto::INT);
       },
       kInvalid, "twice"},
      {"bad tensor",
       [](auto& m) {
         AddAttribute(Mul(m), "a", AttributeProto::TENSOR).mutable_t()->set_data_type(TensorProto::FLOAT);
       },
       kInvalid, "attribute 'a'"},
      {"bad text", [](auto& m) { AddAttribute(Mul(m), "a", AttributeProto::STRING).set_s("\xff"); }, kInvalid, "UTF-8"},
      {"sparse initializer", [](auto& m) { m.mutable_graph()->add_sparse_initializer(); }, kUnimplemented, "sparse"},
  });
}

TEST(OnnxImportTest, NamesThatAreNotTextAreRefused) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const std::string bad = "a\xc3";
  ExpectRefusals({
      {"input", [&](auto& m) { m.mutable_graph()->mutable_input(0)->set_name(bad); }, kInvalid, "UTF-8"},
      {"output", [&](auto& m) { m.mutable_graph()->mutable_output(0)->set_name(bad); }, kInvalid, "UTF-8"},
      {"initializer", [&](auto& m) { W(m).set_name(bad); }, kInvalid, "UTF-8"},
      {"node", [&](auto& m) { Mul(m).set_name(bad); }, kInvalid, "UTF-8"},
      {"operator", [&](auto& m) { Mul(m).set_op_type(bad); }, kInvalid, "UTF-8"},
      {"domain", [&](auto& m) { Mul(m).set_domain(bad); }, kInvalid, "UTF-8"},
      {"value", [&](auto& m) { Mul(m).set_output(0, bad); }, kInvalid, "UTF-8"},
      {"attribute", [&](auto& m) { AddAttribute(Mul(m), bad, AttributeProto::INT); }, kInvalid, "UTF-8"},
      {"producer", [&](auto& m) { m.set_producer_name(bad); }, kInvalid, "UTF-8"},
      {"symbol",
       [&](auto& m) {
         m.mutable_graph()
             ->mutable_input(0)
             ->mutable_type()
             ->mutable_tensor_type()
             ->mutable_shape()
             ->mutable_dim(0)
             ->set_dim_param(bad);
       },
       kInvalid, "UTF-8"},
  });
}

}  // namespace
}  // namespace jacserve::worker
