// One thread's work on one tile of rows: cotangents of every batched value, then the rows of every block.
// In: the compiled problem, records, row numbers. Out: slabs to the consumer.
// A tile is always computed whole, at absolute row numbers, whatever part of it was asked for: a row's bits do not
// depend on how rows were sharded, batched or ordered.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

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
  const TargetFunction& target;
  const Linearizer& linearizer;
  const SharedValues& shared;
  const JacobianLayout& layout;
  const void* embeddings = nullptr;   // [samples, D]
  const void* all_records = nullptr;  // [samples], or null: each thread linearizes what its tile needs
};

// Sizes of a tile, from the program alone.
struct TileShape {
  int64_t rows = 1;
  int64_t cotangent_bytes = 0;  // of all batched values, all lanes
  int64_t scratch_bytes = 0;
  int64_t window_samples = 0;  // records of the samples that a tile can meet, whole chunks
};
TileShape ShapeOfTile(const SampleProgram& program, const PullbackPlan& plan, const Backend& backend, int per_row,
                      const Linearizer& linearizer);

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

class TileWorker {
 public:
  TileWorker(const CompiledProblem& problem, const TileShape& shape, SlotPool& slots);

  // Rows of tile `tile` that lie in `wanted`.
  absl::Status Run(int64_t tile, RowRange wanted, SharedConsumer& consumer, const std::function<bool()>& cancelled);

  const PhaseTimes& times() const { return times_; }

 private:
  struct Span {  // rows of the tile that are emitted together
    RowRange rows;
    int64_t lane_begin;
  };
  void Seed(RowRange tile_rows);
  void FindRecords(RowRange tile_rows);
  void PullBack();
  absl::Status Emit(const EmissionGroup& group, RowRange tile_rows, RowRange wanted, SharedConsumer& consumer,
                    const std::function<bool()>& cancelled);
  void FillRows(const EmissionGroup& group, const Span& span, const std::vector<std::byte*>& blocks);
  void FillInputRows(const EmissionGroup& group, const Span& span, std::byte* rows);
  void RunRowStep(const RowStep& step, const Span& span, const RowSink& sink, bool from_batched);

  ConstLanes Primal(int value, const int32_t* record_of) const;
  Lanes Cotangent(int root) const;
  int64_t RowsPerPiece(const EmissionGroup& group) const;

  const CompiledProblem& problem_;
  const TileShape shape_;
  SlotWriter slots_;
  Scratch scratch_;
  Scratch cotangents_;
  std::vector<void*> cotangent_of_;         // by root
  std::vector<void*> shared_cotangent_of_;  // by root, while a group is emitted
  std::unique_ptr<Scratch> window_;         // records of this tile's samples, when not all are kept
  const void* records_ = nullptr;
  std::vector<int64_t> window_chunks_;
  std::vector<int32_t> sample_of_;  // by lane
  std::vector<int32_t> record_of_;  // by lane
  int64_t lanes_ = 0;
  PhaseTimes times_;
};

}  // namespace jacserve::worker
