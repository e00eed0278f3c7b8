// What one thread does with one tile of rows, whichever way it gets them: tile.h pulls cotangents back,
// pushforward_tile.h pushes tangents forward.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>

#include "worker/engine/linearizer.h"
#include "worker/engine/pullback_plan.h"
#include "worker/engine/shared_values.h"
#include "worker/engine/slot_pool.h"
#include "worker/engine/target.h"

namespace jacserve::worker {

// What all threads share while rows are computed; nothing here changes meanwhile.
struct CompiledProblem {
  const SampleProgram& program;
  const PullbackPlan& plan;
  const Backend& backend;
  const ValueRounding& rounding;
  const TargetFunction& target;
  const Linearizer& linearizer;
  const SharedValues& shared;
  const JacobianLayout& layout;
  const void* embeddings = nullptr;   // [samples, D], in the host's memory
  const void* all_records = nullptr;  // [samples], or null: each thread linearizes what its tile needs
  bool discard_rows = false;          // when they are made
};

// Sizes of a tile, from the program and the kind of backend alone.
struct TileShape {
  int64_t rows = 1;
  int64_t lane_bytes = 0;  // cotangents or tangents of all batched values, all lanes
  int64_t scratch_bytes = 0;
  int64_t window_samples = 0;  // records of the samples that a tile can meet, whole chunks
  int64_t stage_bytes = 0;     // finished rows on the device, where the host cannot read them
};
inline int64_t Padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Hands slabs to the consumer, one thread at a time.
class SharedConsumer {
 public:
  explicit SharedConsumer(RowConsumer& consumer) : consumer_(consumer) {}
  absl::Status OnSlab(const Slab& slab);
  absl::Status OnRowsDone(RowRange rows);

 private:
  std::mutex mutex_;
  RowConsumer& consumer_;
};

class RowWorker {
 public:
  virtual ~RowWorker() = default;
  // Rows of tile `tile` that lie in `wanted`. Cancelled: `cancelled` said so.
  virtual absl::Status Run(int64_t tile, RowRange wanted, SharedConsumer& consumer,
                           const std::function<bool()>& cancelled) = 0;
  const Effort& times() const { return times_; }

 protected:
  Effort times_;
};

// Adds the seconds since it was made to a phase.
class PhaseTimer {
 public:
  explicit PhaseTimer(double& seconds) : seconds_(seconds), begin_(std::chrono::steady_clock::now()) {}
  ~PhaseTimer() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace jacserve::worker
