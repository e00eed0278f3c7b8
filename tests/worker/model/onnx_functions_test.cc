// Calls of functions that a file defines become the functions' nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/worker/model/onnx_builder.h"

namespace jacserve::worker {
namespace {

using onnx::AttributeProto;
using testing::ElementsAre;
using testing::HasSubstr;

onnx::FunctionProto& AddFunction(onnx::ModelProto& model, const std::string& name,
                                 const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  onnx::FunctionProto& function = *model.add_functions();
  function.set_domain("own");
  function.set_name(name);
  for (const std::string& input : inputs) function.add_input(input);
  for (const std::string& output : outputs) function.add_output(output);
  function.add_opset_import()->set_version(18);
  return function;
}

onnx::NodeProto& AddBodyNode(onnx::FunctionProto& function, const std::string& op_type,
                             const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  onnx::NodeProto& node = *function.add_node();
  node.set_op_type(op_type);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  return node;
}

AttributeProto& AddReference(onnx::NodeProto& node, const std::string& name, const std::string& of_function) {
  AttributeProto& attribute = AddAttribute(node, name, AttributeProto::FLOAT);
  attribute.set_ref_attr_name(of_function);
  return attribute;
}

// y = act(x W), where act is the function `act` of the file.
onnx::ModelProto ModelThatCalls() {
  onnx::ModelProto model = SmallModel();
  onnx::NodeProto& call = *model.mutable_graph()->mutable_node(1);
  call.set_op_type("act");
  call.set_domain("own");
  call.set_name("call");
  return model;
}

TEST(OnnxFunctionsTest, CallsBecomeNodesOfTheFunctionsOpset) {
  onnx::ModelProto model = ModelThatCalls();
  onnx::FunctionProto& act = AddFunction(model, "act", {"a"}, {"b"});
  AddBodyNode(act, "Tanh", {"a"}, {"h"});  // the graph has a value h too
  AddBodyNode(act, "Exp", {"h"}, {"b"});
  const auto graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<GraphNode>& nodes = (*graph)->nodes;
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].opset_version, 0);
  EXPECT_EQ(nodes[1].op_type, "Tanh");
  EXPECT_EQ(nodes[1].name, "call/Tanh_0");
  EXPECT_EQ(nodes[1].opset_version, 18);
  EXPECT_THAT(nodes[1].inputs, ElementsAre("h"));
  EXPECT_NE(nodes[1].outputs[0], "h");
  EXPECT_EQ(nodes[2].inputs, nodes[1].outputs);
  EXPECT_THAT(nodes[2].outputs, ElementsAre("y"));
}

TEST(OnnxFunctionsTest, AttributesAreThoseOfTheCallOrTheDefault) {
  for (const bool given : {true, false}) {
    onnx::ModelProto model = ModelThatCalls();
    onnx::FunctionProto& act = AddFunction(model, "act", {"a"}, {"b"});
    onnx::NodeProto& elu = AddBodyNode(act, "Selu", {"a"}, {"b"});
    AddReference(elu, "alpha", "slope");
    AddReference(elu, "beta", "of_nobody");
    AttributeProto fallback;
    fallback.set_name("slope");
    fallback.set_type(AttributeProto::FLOAT);
    fallback.set_f(0.25f);
    constexpr int kAttributeProto = 11;
    act.mutable_unknown_fields()->AddLengthDelimited(kAttributeProto, fallback.SerializeAsString());
    if (given) AddAttribute(*model.mutable_graph()->mutable_node(1), "slope", AttributeProto::FLOAT).set_f(0.5f);
    const auto graph = Import(model);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const GraphNode& node = (*graph)->nodes[1];
    ASSERT_EQ(node.attributes.size(), 1u);
    EXPECT_EQ(std::get<float>(node.attributes.at("alpha")), given ? 0.5f : 0.25f);
  }
}

TEST(OnnxFunctionsTest, FunctionsCallFunctionsAndEachCallHasItsOwnNames) {
  onnx::ModelProto model = ModelThatCalls();
  onnx::FunctionProto& act = AddFunction(model, "act", {"a"}, {"b"});
  for (const auto& [in, out] : {std::pair("a", "h"), std::pair("h", "b")}) {
    AddBodyNode(act, "twice", {in, ""}, {out}).set_domain("own");
  }
  onnx::FunctionProto& twice = AddFunction(model, "twice", {"a", "left_out", "not_given"}, {"b", "c"});
  AddBodyNode(twice, "Clip", {"a", "left_out", "not_given"}, {"h"});
  AddBodyNode(twice, "Add", {"h", "h"}, {"b"});
  AddBodyNode(twice, "Exp", {"h"}, {"c"});
  const auto graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ((*graph)->nodes.size(), 7u);
  EXPECT_THAT((*graph)->nodes[1].inputs, ElementsAre("h", "", ""));
  std::set<std::string> made;
  for (const GraphNode& node : (*graph)->nodes) {
    for (const std::string& output : node.outputs) EXPECT_TRUE(made.insert(output).second) << output;
  }
}

TEST(OnnxFunctionsTest, AnOutputMayBeAnInput) {
  onnx::ModelProto model = ModelThatCalls();
  AddFunction(model, "act", {"a"}, {"a"});
  const auto graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->nodes[1].op_type, "Identity");
  EXPECT_THAT((*graph)->nodes[1].inputs, ElementsAre("h"));
  EXPECT_THAT((*graph)->nodes[1].outputs, ElementsAre("y"));
}

void ExpectRefusal(const onnx::ModelProto& model, absl::StatusCode code, const char* words,
                   const ImportLimits& limits = {}) {
  const absl::Status status = Import(model, limits).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

TEST(OnnxFunctionsTest, RefusesWhatHasNoEnd) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  onnx::ModelProto circle = ModelThatCalls();
  AddBodyNode(AddFunction(circle, "act", {"a"}, {"b"}), "other", {"a"}, {"b"}).set_domain("own");
  AddBodyNode(AddFunction(circle, "other", {"a"}, {"b"}), "act", {"a"}, {"b"}).set_domain("own");
  ExpectRefusal(circle, kInvalid, "calls itself");

  // Each function calls the next one twice: 2^40 nodes.
  onnx::ModelProto wide = ModelThatCalls();
  for (int k = 0; k < 40; ++k) {
    const std::string name = k == 0 ? "act" : "f" + std::to_string(k), next = "f" + std::to_string(k + 1);
    onnx::FunctionProto& function = AddFunction(wide, name, {"a"}, {"b"});
    AddBodyNode(function, next, {"a"}, {"h"}).set_domain("own");
    AddBodyNode(function, next, {"h"}, {"b"}).set_domain("own");
  }
  ExpectRefusal(wide, kInvalid, "nodes");

  onnx::ModelProto heavy = ModelThatCalls();
  AttributeProto& list = AddAttribute(AddBodyNode(AddFunction(heavy, "act", {"a"}, {"b"}), "Relu", {"a"}, {"b"}),
                                      "list", AttributeProto::INTS);
  for (int k = 0; k < 1000; ++k) list.add_ints(k);
  for (const char* output : {"u", "v"}) AddNode(heavy, "act", {"h"}, {output}).set_domain("own");
  ExpectRefusal(heavy, kInvalid, "its functions make more than", {.fields = 2'000});
}

TEST(OnnxFunctionsTest, RefusesCallsThatDoNotFit) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  onnx::ModelProto inputs = ModelThatCalls();
  AddFunction(inputs, "act", {}, {"b"});
  ExpectRefusal(inputs, kInvalid, "more inputs or outputs");

  onnx::ModelProto given_twice = ModelThatCalls();
  for (int k = 0; k < 2; ++k) AddFunction(given_twice, "act", {"a"}, {"a"});
  ExpectRefusal(given_twice, kInvalid, "given twice");

  onnx::ModelProto outside = ModelThatCalls();  // a function does not see the graph around it
  AddBodyNode(AddFunction(outside, "act", {"a"}, {"b"}), "MatMul", {"a", "W"}, {"b"});
  ExpectRefusal(outside, kInvalid, "nothing makes");

  onnx::ModelProto reference = SmallModel();
  AddReference(*reference.mutable_graph()->mutable_node(1), "alpha", "slope");
  ExpectRefusal(reference, kInvalid, "is in none");

  onnx::ModelProto version = ModelThatCalls();
  for (int k = 1; k <= 2; ++k) {
    auto& opset = k == 1 ? *version.add_opset_import() : *AddFunction(version, "act", {"a"}, {"a"}).add_opset_import();
    opset.set_domain("theirs");
    opset.set_version(k);
  }
  ExpectRefusal(version, absl::StatusCode::kUnimplemented, "another version");
}

}  // namespace
}  // namespace jacserve::worker
