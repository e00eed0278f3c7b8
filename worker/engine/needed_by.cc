#include "worker/engine/needed_by.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/size_text.h"

namespace jacserve::worker {
namespace {

// ", the most for node conv1 (Conv)": the node with the largest values of a sample.
std::string MostFor(const SampleProgram& program) {
  const ProgramNode* largest = nullptr;
  int64_t most = 0;
  for (const ProgramNode& node : program.nodes) {
    int64_t elements = 0;
    for (const int y : node.outputs) elements += y < 0 ? 0 : program.values[y].elements;
    if (!node.batched || elements <= most) continue;
    largest = &node;
    most = elements;
  }
  return largest == nullptr ? "" : absl::StrCat(", the most for node ", largest->name, " (", largest->op_type, ")");
}

}  // namespace

std::string NeededBy(const SampleProgram& program, const MemoryNeeds& needs) {
  const int64_t records = std::min(needs.window_samples, needs.samples) * needs.record_bytes;
  const int64_t rows = 2 * needs.largest_row_bytes, tile = needs.thread_bytes;
  const int64_t most = std::max({needs.fixed_bytes, records, rows, tile});
  const auto takes = [most](const char* what) { return absl::StrCat(what, SizeText(most), " of it"); };
  if (most == needs.fixed_bytes) return takes("weights and batches take ");
  if (most == rows) return takes("two rows of the largest block take ");
  if (most == tile) return takes("a tile of rows takes ") + MostFor(program);
  return takes("what is kept of the samples takes ") + MostFor(program);
}

}  // namespace jacserve::worker
