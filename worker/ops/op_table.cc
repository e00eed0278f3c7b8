#include "worker/ops/op_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

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

absl::Status NeedRules(const std::string& op_type) {
  if (FindOp("", op_type, kExpansionOpset) != nullptr) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("it needs the operator ", op_type, ", which has no rules"));
}

}  // namespace jacserve::worker
