// Engines of earlier requests, for when the same request comes again: compiled, with their weights and batches.
// In: engines by the digest of their request. Out: the same, or the memory that they held. The latest used go last.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "worker/engine/engine.h"

namespace jacserve::worker {

struct KeptEngine {
  std::string key;  // digest of the request
  std::unique_ptr<Engine> engine;
  int64_t bytes = 0;  // that the engine may allocate, and of its graph and tensors
  Effort reported;    // of its effort, by shards before
};

class KeptEngines {
 public:
  explicit KeptEngines(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // One that alone is over the capacity is not kept.
  void Keep(KeptEngine engine);
  std::optional<KeptEngine> Take(const std::string& key);

  // Lets go of some until the others have at most so many bytes.
  void ShrinkTo(int64_t bytes);

  int64_t bytes() const { return bytes_; }

 private:
  const int64_t capacity_bytes_;
  std::list<KeptEngine> engines_;  // the latest used first
  int64_t bytes_ = 0;
};

}  // namespace jacserve::worker
