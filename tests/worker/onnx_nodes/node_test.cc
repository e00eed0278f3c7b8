// ONNX's own operator tests, forward, for every operator that the table claims. JACSERVE_NODE_TESTS: a folder of them
// (by default those that Debian packages). What is refused is refused for a reason that stands in the list below.
#include <gtest/gtest.h>

#include "tests/worker/onnx_nodes/known_refusals.h"
#include "tests/worker/onnx_nodes/run_node_case.h"

namespace jacserve::worker {
namespace {

class OnnxNode : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(OnnxNode, GivesTheRightOutputsOrIsRefusedForAKnownReason) {
  const auto node = LoadNodeCase(GetParam());
  const absl::Status status = node.ok() ? RunNodeCase(*node) : node.status();
  if (status.ok()) return;
  EXPECT_NE(KnownRefusal(status), "") << status;
}

INSTANTIATE_TEST_SUITE_P(All, OnnxNode, testing::ValuesIn(NodeCaseFolders(NodeTestsRoot())),
                         [](const auto& info) { return info.param.filename().string(); });

TEST(OnnxNodes, AreThere) { EXPECT_GT(NodeCaseFolders(NodeTestsRoot()).size(), 900u); }

}  // namespace
}  // namespace jacserve::worker
