// Writes docs/operators.md: the operator table, and how many of ONNX's own tests pass for each.
// usage: operators_doc FOLDER_OF_TESTS; prints Markdown.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "tests/worker/onnx_nodes/known_refusals.h"
#include "tests/worker/onnx_nodes/run_node_case.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

struct Counts {
  int passed = 0, refused = 0, failed = 0;
};

constexpr char kHead[] =
    "# Operators\n\n"
    "Written by `make operators-doc` from the operator table (`worker/ops/op_table.h`) and from ONNX's own operator\n"
    "tests, which run forward on the `reference` and `cpu` backends in float32 and float64. Derivatives are compared\n"
    "with central differences, and pushed forward against pulled back, in `tests/worker/ops`. What they\n"
    "are at kinks and ties is in [conventions.md](conventions.md).\n\n"
    "An operator is a rule of its own, or a graph of others. Its opset range is what it understands; a newer file is\n"
    "refused by name.\n\n"
    "| operator | opsets | made of | tests passed | refused |\n|---|---|---|---|---|\n";

int Main(const char* root) {
  std::map<std::string, Counts> by_operator;
  std::map<std::string, int> reasons;
  int passed = 0, failed = 0, total = 0;
  for (const auto& folder : NodeCaseFolders(root)) {
    ++total;
    const auto node = LoadNodeCase(folder);
    const absl::Status status = node.ok() ? RunNodeCase(*node) : node.status();
    const std::string reason = status.ok() ? "" : KnownRefusal(status);
    Counts none;
    Counts& counts = node.ok() ? by_operator[node->claimed[0]] : none;
    if (status.ok()) {
      ++passed;
      ++counts.passed;
    } else if (reason.empty()) {
      ++failed;
      std::fprintf(stderr, "%s: %s\n", folder.filename().c_str(), status.ToString().c_str());
    } else {
      ++reasons[reason];
      ++counts.refused;
    }
  }
  std::vector<OpEntry> entries(OpTable().begin(), OpTable().end());
  std::sort(entries.begin(), entries.end(), [](const OpEntry& a, const OpEntry& b) { return a.op_type < b.op_type; });
  std::printf("%s", kHead);
  for (const OpEntry& entry : entries) {
    const Counts& counts = by_operator[std::string(entry.op_type)];
    std::printf("| %s | %d to %d | %s | %d | %d |\n", std::string(entry.op_type).c_str(), entry.since, kNewestOpset,
                entry.make ? "a rule" : "others", counts.passed, counts.refused);
  }
  std::printf(
      "\n%zu operators. Of %d tests %d pass and %d fail. The others are refused, in words:\n\n"
      "| why | tests |\n|---|---|\n",
      entries.size(), total, passed, failed);
  for (const auto& [reason, count] : reasons) std::printf("| %s | %d |\n", reason.c_str(), count);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace jacserve::worker

int main(int argc, char** argv) {
  if (argc == 2) return jacserve::worker::Main(argv[1]);
  std::fprintf(stderr, "usage: operators_doc FOLDER_OF_TESTS\n");
  return 2;
}
