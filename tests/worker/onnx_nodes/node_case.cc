#include "tests/worker/onnx_nodes/node_case.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/model/onnx_import.h"
#include "worker/model/onnx_tensor.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

std::vector<std::byte> ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), {}};
  const auto* begin = reinterpret_cast<const std::byte*>(chars.data());
  return {begin, begin + chars.size()};
}

absl::StatusOr<NamedTensors> ReadTensors(const std::filesystem::path& folder, const std::string& kind,
                                         const std::vector<std::string>& names) {
  NamedTensors tensors;
  for (size_t k = 0; k < names.size(); ++k) {
    const std::filesystem::path path = folder / absl::StrCat(kind, "_", k, ".pb");
    if (!std::filesystem::exists(path)) break;  // optional inputs at the end
    const std::vector<std::byte> bytes = ReadFile(path);
    onnx::TensorProto tensor;
    if (!tensor.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return absl::UnimplementedError("a sequence or optional instead of a tensor");
    }
    if (!DTypeOfOnnx(tensor.data_type())) {
      return absl::UnimplementedError(absl::StrCat("tensors of type ", OnnxTypeName(tensor.data_type())));
    }
    ASSIGN_OR_RETURN(HostTensor read, ReadTensor(names[k], tensor, {}));
    tensors.emplace_back(names[k], std::move(read));
  }
  return tensors;
}

}  // namespace

std::filesystem::path NodeTestsRoot() {
  const char* root = std::getenv("JACSERVE_NODE_TESTS");
  return root ? root : "/usr/share/libonnx-testdata/data/node";
}

std::vector<std::filesystem::path> NodeCaseFolders(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> folders;
  if (!std::filesystem::exists(root)) return folders;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    if (std::filesystem::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

absl::StatusOr<NodeCase> LoadNodeCase(const std::filesystem::path& folder) {
  NodeCase node{.name = folder.filename().string()};
  ASSIGN_OR_RETURN(node.graph, ImportOnnx(ReadFile(folder / "model.onnx")));
  std::vector<std::string> types;
  for (const GraphNode& n : node.graph->nodes) {
    const int64_t opset = n.opset_version == 0 ? node.graph->opset_version : n.opset_version;
    if (FindOp(n.domain, n.op_type, opset) == nullptr) {
      const bool newer = opset > kNewestOpset && FindOp(n.domain, n.op_type, kNewestOpset) != nullptr;
      return absl::UnimplementedError(newer ? absl::StrCat("opset newer than ", kNewestOpset)
                                            : absl::StrCat("operator ", n.op_type));
    }
    types.push_back(n.op_type);
  }
  std::vector<std::string> inputs, outputs;
  for (const GraphValue& value : node.graph->inputs) inputs.push_back(value.name);
  for (const GraphValue& value : node.graph->outputs) outputs.push_back(value.name);
  node.claimed = std::move(types);
  const std::filesystem::path data = folder / "test_data_set_0";
  ASSIGN_OR_RETURN(node.inputs, ReadTensors(data, "input", inputs));
  ASSIGN_OR_RETURN(node.outputs, ReadTensors(data, "output", outputs));
  return node;
}

}  // namespace jacserve::worker
