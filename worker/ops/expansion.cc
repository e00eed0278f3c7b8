#include "worker/ops/expansion.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "worker/ops/attributes.h"

namespace jacserve::worker {

std::string Expansion::Add(const std::string& op_type, Names inputs, Attributes attributes) {
  return AddMany(op_type, std::move(inputs), 1, std::move(attributes))[0];
}

Expansion::Names Expansion::AddMany(const std::string& op_type, Names inputs, size_t outputs, Attributes attributes) {
  // No other name in a graph holds this character.
  GraphNode node{.name = absl::StrCat(node_.name, "\x1f", op_type, "_", next_++), .op_type = op_type};
  node.inputs = std::move(inputs);
  for (size_t k = 0; k < outputs; ++k) node.outputs.push_back(absl::StrCat(node.name, "\x1f", k));
  node.attributes = std::move(attributes);
  node.opset_version = kExpansionOpset;
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

std::string Expansion::Number(double value) {
  auto bytes = std::make_shared<std::vector<std::byte>>(sizeof value);
  std::memcpy(bytes->data(), &value, sizeof value);
  return Add("Constant", {}, {{"value", HostTensor{DType::kFloat64, {}, std::move(bytes)}}});
}

std::string Expansion::Ints(std::vector<int64_t> values) {
  return Add("Constant", {}, {{"value_ints", std::move(values)}});
}

void Expansion::Output(size_t k, const std::string& value) {
  if (k >= node_.outputs.size() || node_.outputs[k].empty()) return;
  Add("Identity", {value});
  nodes_.back().outputs = {node_.outputs[k]};
}

}  // namespace jacserve::worker
