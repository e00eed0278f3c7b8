#include "tests/worker/engine/golden_case.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "client/cpp/array_io/npy.h"
#include "common/status.h"
#include "worker/model/onnx_import.h"

namespace jacserve::worker {
namespace {

NamedTensors ReadAll(const std::string& path) {
  auto file = client::NpzFile::Open(path);
  JACSERVE_CHECK(file.ok());
  NamedTensors tensors;
  for (const std::string& name : file->names()) tensors.emplace_back(name, ToHost(*file->Read(name)));
  return tensors;
}

}  // namespace

std::string GoldenFolder(const std::string& name) { return std::string(std::getenv("JACSERVE_GOLDEN")) + "/" + name; }

HostTensor ToHost(const client::Array& array) {
  return {array.dtype, array.shape,
          std::make_shared<const std::vector<std::byte>>(array.bytes.begin(), array.bytes.end())};
}

GoldenCase LoadGoldenCase(const std::string& name, bool with_expected) {
  const std::string folder = GoldenFolder(name);
  const auto json = nlohmann::json::parse(std::ifstream(folder + "/case.json"));
  GoldenCase result;
  result.name = name;
  std::ifstream file(folder + "/graph.onnx", std::ios::binary);
  const std::string graph((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto imported = ImportOnnx(std::as_bytes(std::span(graph)));
  JACSERVE_CHECK(imported.ok());
  result.problem.graph = *imported;
  if (json.value("functional", true)) result.problem.weights = ReadAll(folder + "/weights.npz");
  if (std::ifstream(folder + "/x.npy").good()) {
    result.problem.inputs = {{"x", ToHost(*client::ReadNpy(folder + "/x.npy"))}};
    result.problem.second_inputs = {{"x", ToHost(*client::ReadNpy(folder + "/y.npy"))}};
  } else {
    for (auto& [key, tensor] : ReadAll(folder + "/inputs.npz")) {
      (key == "x" ? result.problem.inputs : result.problem.second_inputs).emplace_back("x", std::move(tensor));
    }
  }
  const auto& target = json["target"];
  if (target["kind"] == "pairwise") {
    const std::map<std::string, Similarity> similarity = {
        {"cosine", Similarity::kCosine}, {"dot", Similarity::kDot}, {"sqdist", Similarity::kSqdist}};
    const std::map<std::string, CosineForm> form = {{"sqrt_max_sum", CosineForm::kSqrtMaxSum},
                                                    {"max_norm", CosineForm::kMaxNorm},
                                                    {"add_product", CosineForm::kAddProduct}};
    PairwiseTarget pairwise{similarity.at(target["similarity"]), target["sign"]};
    if (target["form"].is_string()) pairwise.form = form.at(target["form"]);
    pairwise.epsilon = target["epsilon"];
    result.problem.pairwise = pairwise;
  }
  for (const auto& wrt : json["wrt"]) result.problem.wrt_parameters.push_back(wrt);
  if (json.value("wrt_inputs", false)) result.problem.wrt_inputs = {"x"};
  if (json.contains("unconnected")) {
    for (const auto& block : json["unconnected"]) result.unconnected.push_back(block);
  }
  if (!with_expected) return result;
  for (auto& [key, tensor] : ReadAll(folder + "/expected.npz")) {
    const std::string block = key == "input:0" ? "x" : key == "input:1" ? "second.x" : key;
    result.expected.emplace(block, std::move(tensor));
  }
  return result;
}

std::vector<double> ToDoubles(const HostTensor& tensor) { return ToDoubles(*tensor.bytes, tensor.dtype); }

std::vector<double> ToDoubles(const std::vector<std::byte>& bytes, DType dtype) {
  std::vector<double> numbers(bytes.size() / SizeOf(dtype));
  for (size_t p = 0; p < numbers.size(); ++p) {
    if (dtype == DType::kFloat32) {
      float x;
      std::memcpy(&x, bytes.data() + p * sizeof x, sizeof x);
      numbers[p] = x;
    } else {
      std::memcpy(&numbers[p], bytes.data() + p * sizeof(double), sizeof(double));
    }
  }
  return numbers;
}

Gather::Gather(const JacobianLayout& layout, RowRange rows)
    : layout_(layout), rows_(rows), seen_(layout.blocks.size()) {
  for (const BlockInfo& block : layout.blocks) {
    blocks_.emplace_back(block.connected ? rows.count * block.row_bytes : 0);
  }
}

absl::Status Gather::OnSlab(const Slab& slab) {
  const int64_t row_bytes = layout_.blocks[slab.block].row_bytes;
  if (!layout_.blocks[slab.block].connected) return absl::InternalError("a slab of an unconnected block");
  if (slab.rows.begin < rows_.begin || slab.rows.end() > rows_.end()) return absl::InternalError("rows not asked for");
  if (static_cast<int64_t>(slab.bytes.size()) != slab.rows.count * row_bytes) return absl::InternalError("slab size");
  std::memcpy(blocks_[slab.block].data() + (slab.rows.begin - rows_.begin) * row_bytes, slab.bytes.data(),
              slab.bytes.size());
  seen_[slab.block].Add(slab.rows);
  return absl::OkStatus();
}

absl::Status Gather::OnRowsDone(RowRange rows) {
  for (size_t b = 0; b < seen_.size(); ++b) {
    const bool carries = layout_.blocks[b].connected && layout_.blocks[b].row_bytes > 0;
    if (carries && !seen_[b].Contains(rows)) return absl::InternalError("rows done before their slabs");
  }
  done_.Add(rows);
  return absl::OkStatus();
}

}  // namespace jacserve::worker
