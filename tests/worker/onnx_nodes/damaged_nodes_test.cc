// Operators under attributes, inputs and versions that make no sense: an error in words or numbers, never a crash.
// ONNX's own operator tests, each changed at random in many ways; the seed is fixed.
#include <gtest/gtest.h>

#include <random>

#include "tests/worker/onnx_nodes/run_node_case.h"
#include "worker/engine/shared_values.h"
#include "worker/ops/op_table.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {
namespace {

constexpr int kDamages = 12;  // of each test
constexpr int64_t kMostElements = 1 << 20;

class Damage {
 public:
  explicit Damage(unsigned seed) : random_(seed) {}

  void Apply(NodeCase& node) {
    Graph graph = *node.graph;
    GraphNode& at = graph.nodes[random_() % graph.nodes.size()];
    switch (random_() % 8) {
      case 0:
        if (!at.inputs.empty()) at.inputs[random_() % at.inputs.size()] = "";
        break;
      case 1:
        if (!at.inputs.empty()) at.inputs.pop_back();
        break;
      case 2:
        if (at.inputs.size() > 1) std::swap(at.inputs[0], at.inputs[random_() % at.inputs.size()]);
        break;
      case 3:
        at.op_type = OpTable()[random_() % OpTable().size()].op_type;
        break;
      case 4:
        graph.opset_version = 7 + random_() % 17;
        break;
      case 5:
        DamageTensor(node);
        break;
      default:
        DamageAttribute(at);
    }
    node.graph = std::make_shared<const Graph>(std::move(graph));
  }

 private:
  int64_t Odd() {
    constexpr int64_t kOdd[] = {0, 1, -1, 2, -2, 3, 7, -100, 300, INT32_MAX, INT64_MAX, INT64_MIN, int64_t{1} << 40};
    return kOdd[random_() % std::size(kOdd)];
  }

  void DamageAttribute(GraphNode& node) {
    constexpr const char* kNames[] = {"axis",     "axes", "pads",     "strides",     "dilations",      "kernel_shape",
                                      "group",    "perm", "keepdims", "hidden_size", "split",          "num_outputs",
                                      "to",       "mode", "epsilon",  "blocksize",   "output_padding", "batch_dims",
                                      "auto_pad", "size", "k",        "num_groups",  "direction"};
    std::string name = kNames[random_() % std::size(kNames)];
    if (!node.attributes.empty() && random_() % 4 != 0) {
      name = std::next(node.attributes.begin(), static_cast<int64_t>(random_() % node.attributes.size()))->first;
    }
    AttributeValue& value = node.attributes[name];
    if (auto* list = std::get_if<std::vector<int64_t>>(&value); list != nullptr && random_() % 4 != 0) {
      if (list->empty() || random_() % 3 == 0) {
        random_() % 2 || list->empty() ? list->push_back(Odd()) : list->pop_back();
      } else {
        (*list)[random_() % list->size()] = Odd();
      }
      return;
    }
    switch (random_() % 5) {
      case 0:
        value = std::vector<int64_t>{Odd(), Odd()};
        break;
      case 1:
        value = static_cast<float>(Odd());
        break;
      case 2:
        value = std::string("nonsense");
        break;
      default:
        value = Odd();
    }
  }

  // Another shape for an input, or other integers in it.
  void DamageTensor(NodeCase& node) {
    if (node.inputs.empty()) return;
    HostTensor& tensor = node.inputs[random_() % node.inputs.size()].second;
    if (tensor.dtype == DType::kInt64 && Elements(tensor.shape) > 0 && random_() % 2 == 0) {
      auto bytes = std::make_shared<std::vector<std::byte>>(*tensor.bytes);
      reinterpret_cast<int64_t*>(bytes->data())[random_() % Elements(tensor.shape)] = Odd();
      tensor.bytes = std::move(bytes);
      return;
    }
    Shape shape = tensor.shape;
    if (shape.empty() || random_() % 3 == 0) {
      shape.push_back(static_cast<int64_t>(random_() % 3));
    } else if (random_() % 2 == 0) {
      shape.pop_back();
    } else {
      shape[random_() % shape.size()] = static_cast<int64_t>(random_() % 4);
    }
    tensor.shape = shape;
    tensor.bytes = std::make_shared<std::vector<std::byte>>(Elements(shape) * SizeOf(tensor.dtype));
  }

  std::mt19937 random_;
};

// What an engine would refuse for want of memory is only compiled.
bool IsSmall(const NodeCase& node) {
  int64_t elements = 0;
  for (const GraphValue& output : node.graph->outputs) {
    Bindings bindings{.output = output.name};
    for (const auto& [name, tensor] : node.inputs) bindings.shared_inputs[name] = {tensor.dtype, tensor.shape};
    const auto program = CompileSharedProgram(*node.graph, bindings);
    if (!program.ok()) continue;
    for (const ProgramValue& value : program->values) elements += std::min(value.elements, kMostElements);
    const int64_t scratch_bytes = SharedValues::ScratchBytes(*program, *MakeReferenceBackend(DType::kFloat64));
    if (scratch_bytes < 0 || scratch_bytes > 16 * kMostElements) return false;
  }
  return elements < kMostElements;
}

class DamagedNode : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(DamagedNode, IsRefusedOrComputed) {
  const auto node = LoadNodeCase(GetParam());
  if (!node.ok()) return;  // not ours to compute; node_test says why
  for (unsigned seed = 0; seed < kDamages; ++seed) {
    NodeCase damaged = *node;
    Damage damage(seed);
    damage.Apply(damaged);
    if (seed % 3 == 0) damage.Apply(damaged);
    SCOPED_TRACE(seed);
    if (IsSmall(damaged)) (void)RunNodeCase(damaged);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DamagedNode, testing::ValuesIn(NodeCaseFolders(NodeTestsRoot())),
                         [](const auto& info) { return info.param.filename().string(); });

}  // namespace
}  // namespace jacserve::worker
