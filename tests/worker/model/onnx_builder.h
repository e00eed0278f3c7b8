// Small ONNX models for tests, built with ONNX's own classes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "worker/model/onnx_import.h"

namespace jacserve::worker {

inline void AddValue(onnx::ValueInfoProto& info, const std::string& name, const std::vector<int64_t>& shape,
                     int32_t type = onnx::TensorProto::FLOAT) {
  info.set_name(name);
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();
  for (int64_t size : shape) {
    auto& axis = *tensor.mutable_shape()->add_dim();
    if (size < 0) {
      axis.set_dim_param("N");
    } else {
      axis.set_dim_value(size);
    }
  }
}

inline onnx::NodeProto& AddNode(onnx::ModelProto& model, const std::string& op_type,
                                const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type(op_type);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  return node;
}

inline onnx::TensorProto& AddInitializer(onnx::ModelProto& model, const std::string& name,
                                         const std::vector<int64_t>& shape, const std::vector<float>& data) {
  onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t size : shape) tensor.add_dims(size);
  for (float element : data) tensor.add_float_data(element);
  return tensor;
}

inline onnx::AttributeProto& AddAttribute(onnx::NodeProto& node, const std::string& name,
                                          onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

// y = relu(x W), x [N, 2], W [2, 3] an initializer.
inline onnx::ModelProto SmallModel() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.set_producer_name("tests");
  model.set_producer_version("1");
  model.add_opset_import()->set_version(17);
  model.mutable_graph()->set_name("small");
  AddValue(*model.mutable_graph()->add_input(), "x", {-1, 2});
  AddValue(*model.mutable_graph()->add_output(), "y", {-1, 3});
  AddInitializer(model, "W", {2, 3}, {1, 2, 3, 4, 5, 6});
  AddNode(model, "MatMul", {"x", "W"}, {"h"}).set_name("mul");
  AddNode(model, "Relu", {"h"}, {"y"});
  return model;
}

inline absl::StatusOr<std::shared_ptr<const Graph>> Import(const std::string& bytes, const ImportLimits& limits = {}) {
  return ImportOnnx(std::as_bytes(std::span(bytes)), limits);
}

inline absl::StatusOr<std::shared_ptr<const Graph>> Import(const onnx::ModelProto& model,
                                                           const ImportLimits& limits = {}) {
  return Import(model.SerializeAsString(), limits);
}

}  // namespace jacserve::worker
