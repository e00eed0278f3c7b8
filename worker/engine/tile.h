// One thread's work on one tile of rows: cotangents of every batched value, then the rows of every block.
// In: the compiled problem, records, row numbers. Out: slabs to the consumer.
// A tile is always computed whole, at absolute row numbers, whatever part of it was asked for: a row's bits do not
// depend on how rows were sharded, batched or ordered.
#pragma once

#include <functional>
#include <vector>

#include "worker/engine/record_window.h"
#include "worker/engine/row_outlet.h"
#include "worker/engine/row_worker.h"

namespace jacserve::worker {

TileShape ShapeOfTile(const SampleProgram& program, const PullbackPlan& plan, const Backend& backend, int per_row,
                      const Linearizer& linearizer);

class TileWorker : public RowWorker {
 public:
  // ResourceExhausted: as Memory::Allocate.
  static absl::StatusOr<std::unique_ptr<RowWorker>> Make(const CompiledProblem& problem, const TileShape& shape,
                                                         SlotPool& slots);

  absl::Status Run(int64_t tile, RowRange wanted, SharedConsumer& consumer,
                   const std::function<bool()>& cancelled) override;

 private:
  struct Span {  // rows of the tile that are emitted together
    RowRange rows;
    int64_t lane_begin;
  };
  TileWorker(const CompiledProblem& problem, const TileShape& shape, RowOutlet outlet, Scratch scratch,
             Scratch cotangents, RecordWindow window, Buffer seeds);

  void Seed(RowRange tile_rows);
  void SeedPairs(RowRange tile_rows, Lanes ct);
  void SeedOutputs(RowRange tile_rows, Lanes ct);
  void FindRecords(RowRange tile_rows);
  void PullBack();
  absl::Status Emit(const EmissionGroup& group, RowRange tile_rows, RowRange wanted, SharedConsumer& consumer,
                    const std::function<bool()>& cancelled);
  void FillRows(const EmissionGroup& group, const Span& span, const std::vector<std::byte*>& rows);
  void FillInputRows(const EmissionGroup& group, const Span& span, std::byte* rows);
  void RunRowStep(const RowStep& step, const Span& span, const RowSink& sink, bool from_batched);

  Lanes Cotangent(int root) const;
  int64_t RowsPerPiece(const EmissionGroup& group) const;

  const CompiledProblem& problem_;
  const TileShape shape_;
  RowOutlet outlet_;
  Scratch scratch_;
  Scratch cotangents_;
  std::vector<void*> cotangent_of_;         // by root
  std::vector<void*> shared_cotangent_of_;  // by root, while a group is emitted
  RecordWindow window_;
  Buffer seeds_;                    // a tile's cotangents of the output on the host, where that is not the device
  std::vector<int32_t> sample_of_;  // by lane
  int64_t lanes_ = 0;
};

}  // namespace jacserve::worker
