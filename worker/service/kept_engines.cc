#include "worker/service/kept_engines.h"

#include <algorithm>
#include <utility>

namespace jacserve::worker {
namespace {

constexpr size_t kMostEngines = 16;  // what a compiled graph itself takes is not counted in bytes

}  // namespace

void KeptEngines::Keep(KeptEngine engine) {
  if (engine.bytes > capacity_bytes_) return;
  bytes_ += engine.bytes;
  engines_.push_front(std::move(engine));
  ShrinkTo(capacity_bytes_);
}

std::optional<KeptEngine> KeptEngines::Take(const std::string& key) {
  const auto found = std::ranges::find(engines_, key, &KeptEngine::key);
  if (found == engines_.end()) return std::nullopt;
  KeptEngine engine = std::move(*found);
  engines_.erase(found);
  bytes_ -= engine.bytes;
  return engine;
}

void KeptEngines::ShrinkTo(int64_t bytes) {
  while (!engines_.empty() && (bytes_ > std::max<int64_t>(bytes, 0) || engines_.size() > kMostEngines)) {
    bytes_ -= engines_.back().bytes;
    engines_.pop_back();
  }
}

}  // namespace jacserve::worker
