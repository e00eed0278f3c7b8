#include "worker/ops/op_table.h"

#include <algorithm>

namespace jacserve::worker {
namespace {

constexpr OpEntry kTable[] = {
#define X(Name, since) {#Name, since, &Make##Name, nullptr},
    JACSERVE_OPS(X)
#undef X
#define X(Name, since) {#Name, since, nullptr, &Expand##Name},
        JACSERVE_EXPANSIONS(X)
#undef X
};

}  // namespace

std::span<const OpEntry> OpTable() { return kTable; }

const OpEntry* FindOp(std::string_view domain, std::string_view op_type, int64_t opset) {
  if (!domain.empty() && domain != "ai.onnx") return nullptr;
  const auto* it = std::find_if(std::begin(kTable), std::end(kTable),
                                [&](const OpEntry& entry) { return entry.op_type == op_type; });
  return it == std::end(kTable) || opset < it->since || opset > kNewestOpset ? nullptr : it;
}

}  // namespace jacserve::worker
