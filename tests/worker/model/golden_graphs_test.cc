// Every golden graph imports, with what its exporter is known to write.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/worker/model/onnx_builder.h"

namespace jacserve::worker {
namespace {

std::filesystem::path Golden() { return std::getenv("JACSERVE_GOLDEN"); }

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::shared_ptr<const Graph> ImportCase(const std::string& name) {
  absl::StatusOr<std::shared_ptr<const Graph>> graph = Import(ReadFile(Golden() / name / "graph.onnx"));
  EXPECT_TRUE(graph.ok()) << name << ": " << graph.status();
  return graph.ok() ? *graph : nullptr;
}

TEST(GoldenGraphsTest, AllImport) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Golden())) {
    if (!std::filesystem::exists(entry.path() / "graph.onnx")) continue;
    ++count;
    std::shared_ptr<const Graph> graph = ImportCase(entry.path().filename());
    ASSERT_NE(graph, nullptr);
    EXPECT_FALSE(graph->nodes.empty());
    EXPECT_FALSE(graph->producer.empty());
    EXPECT_EQ(graph->inputs[0].name, "x");
    EXPECT_EQ(graph->inputs[0].shape[0], -1);
    EXPECT_EQ(graph->inputs[0].symbols[0], "N");
  }
  EXPECT_GE(count, 13);
}

TEST(GoldenGraphsTest, SeedKeepsItsParametersAsInputs) {
  std::shared_ptr<const Graph> graph = ImportCase("seed_full");
  ASSERT_NE(graph, nullptr);
  int64_t parameters = 0;
  for (const GraphValue& input : graph->inputs) {
    if (input.name == "x") continue;
    EXPECT_EQ(input.dtype, DType::kFloat32);
    parameters += Elements(input.shape);
  }
  EXPECT_EQ(parameters, 1'139'168 + 514);  // and the policy head, which the embedding does not use
  for (const auto& [name, tensor] : graph->initializers) EXPECT_FALSE(IsFloat(tensor.dtype)) << name;
}

TEST(GoldenGraphsTest, PlainFileKeepsItsInitializers) {
  std::shared_ptr<const Graph> graph = ImportCase("plain_onnx_initializers");
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->inputs.size(), 1u);
  std::set<std::string> names;
  for (const auto& [name, tensor] : graph->initializers) names.insert(name);
  EXPECT_EQ(names, (std::set<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
  EXPECT_EQ(graph->initializers.at("0.weight").shape, (Shape{7, 4}));
}

TEST(GoldenGraphsTest, NoTruncationOfAnExportersFileCrashes) {
  const std::string bytes = ReadFile(Golden() / "shared_layer_residual" / "graph.onnx");
  for (size_t size = 0; size < bytes.size(); ++size) {
    const absl::Status status = Import(bytes.substr(0, size)).status();
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << size << ": " << status;
  }
}

}  // namespace
}  // namespace jacserve::worker
