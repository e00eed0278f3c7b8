#include "tests/worker/ops/op_builder.h"

#include <cstring>

#include "worker/ops/attributes.h"

namespace jacserve::worker {

OpCaseBuilder& OpCaseBuilder::Input(const std::string& name, Shape sample, int kind) {
  sample.insert(sample.begin(), 3);
  Shape declared = sample;
  declared[0] = -1;
  graph_.inputs.push_back({name, DType::kFloat32, declared, std::vector<std::string>(declared.size())});
  case_.problem.inputs.emplace_back(name, Random(sample, kind));
  case_.problem.wrt_inputs.push_back(name);
  return *this;
}

OpCaseBuilder& OpCaseBuilder::IntInput(const std::string& name, Shape sample, const Ints& values) {
  sample.insert(sample.begin(), 3);
  Shape declared = sample;
  declared[0] = -1;
  graph_.inputs.push_back({name, DType::kInt64, declared, std::vector<std::string>(declared.size())});
  case_.problem.inputs.emplace_back(name, IntTensor(DType::kInt64, sample, values));
  return *this;
}

OpCaseBuilder& OpCaseBuilder::W(const std::string& name, Shape shape, int kind) {
  graph_.inputs.push_back({name, DType::kFloat32, shape, std::vector<std::string>(shape.size())});
  case_.problem.weights.emplace_back(name, Random(shape, kind));
  case_.problem.wrt_parameters.push_back(name);
  return *this;
}

OpCaseBuilder& OpCaseBuilder::I(const std::string& name, const Ints& values) {
  graph_.initializers[name] = IntTensor(DType::kInt64, {static_cast<int64_t>(values.size())}, values);
  return *this;
}

OpCaseBuilder& OpCaseBuilder::PairwiseDot() {
  case_.problem.pairwise = PairwiseTarget{.similarity = Similarity::kDot};
  for (const auto& [name, tensor] : case_.problem.inputs) {
    case_.problem.second_inputs.emplace_back(name, Random(tensor.shape, 0));
  }
  return *this;
}

OpCaseBuilder& OpCaseBuilder::F(const std::string& name, const std::vector<float>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  graph_.initializers[name] = {DType::kFloat32,
                               {static_cast<int64_t>(values.size())},
                               std::make_shared<std::vector<std::byte>>(begin, begin + values.size() * sizeof(float))};
  return *this;
}

OpCaseBuilder& OpCaseBuilder::Node(const std::string& op, std::vector<std::string> in, std::vector<std::string> out,
                                   Attributes attributes) {
  graph_.nodes.push_back({"node_" + out[0], op, "", std::move(in), std::move(out), std::move(attributes)});
  return *this;
}

OpCaseBuilder& OpCaseBuilder::ExportedAt(int64_t samples) {
  for (GraphValue& input : graph_.inputs) {
    if (input.shape[0] < 0) input.shape[0] = samples;
  }
  return *this;
}

OpCase OpCaseBuilder::Done(const std::string& output) {
  graph_.outputs = {{output, DType::kFloat32, {}, {}, false}};
  case_.graph = case_.problem.graph = std::make_shared<const Graph>(graph_);
  return case_;
}

HostTensor OpCaseBuilder::Random(const Shape& shape, int kind) {
  std::uniform_real_distribution<float> magnitude(0.2f, 1.0f);
  auto bytes = std::make_shared<std::vector<std::byte>>(Elements(shape) * sizeof(float));
  for (int64_t p = 0; p < Elements(shape); ++p) {
    float value = magnitude(generator_);
    if (kind != 1 && generator_() % 2 == 0) value = -value;
    std::memcpy(bytes->data() + p * sizeof value, &value, sizeof value);
  }
  return {DType::kFloat32, shape, std::move(bytes)};
}

}  // namespace jacserve::worker
