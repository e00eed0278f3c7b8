// Which nodes the wanted output depends on.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

absl::StatusOr<std::vector<const GraphNode*>> LiveNodes(const Graph& graph, const std::string& output) {
  const auto it = std::find_if(graph.outputs.begin(), graph.outputs.end(),
                               [&](const GraphValue& value) { return value.name == output; });
  if (it == graph.outputs.end()) {
    const auto name = [](std::string* out, const GraphValue& value) { absl::StrAppend(out, value.name); };
    return absl::InvalidArgumentError(
        absl::StrCat(output.empty() ? "the graph has several outputs; name one of them: " : "the graph has no output ",
                     output, output.empty() ? "" : "; it has: ", absl::StrJoin(graph.outputs, ", ", name)));
  }
  std::set<std::string> wanted = {output};
  std::vector<const GraphNode*> live;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool is_live = std::any_of(node->outputs.begin(), node->outputs.end(),
                                     [&](const std::string& name) { return wanted.contains(name); });
    if (!is_live) continue;
    wanted.insert(node->inputs.begin(), node->inputs.end());
    live.push_back(&*node);
  }
  std::reverse(live.begin(), live.end());
  return live;
}

}  // namespace jacserve::worker
