// One thread's work on one sample's rows, column by column: a tangent per input element, pushed forward.
// In: the compiled problem, records, row numbers. Out: slabs to the consumer. A tile is the rows of one sample.
#pragma once

#include <functional>
#include <vector>

#include "worker/engine/pushforward_plan.h"
#include "worker/engine/record_window.h"
#include "worker/engine/row_outlet.h"
#include "worker/engine/row_worker.h"

namespace jacserve::worker {

// Elements of one sample's [outputs, inputs] that a thread holds: a bound that no budget changes, so that the budget
// does not choose the way, and with it the bits.
constexpr int64_t kLargestSampleJacobian = int64_t{8} << 20;

TileShape ShapeOfPushforwardTile(const SampleProgram& program, const PullbackPlan& pullbacks,
                                 const PushforwardPlan& plan, const Backend& backend, const Linearizer& linearizer);

class PushforwardTileWorker : public RowWorker {
 public:
  // ResourceExhausted: as Memory::Allocate.
  static absl::StatusOr<std::unique_ptr<RowWorker>> Make(const CompiledProblem& problem, const PushforwardPlan& plan,
                                                         const TileShape& shape, SlotPool& slots);

  absl::Status Run(int64_t tile, RowRange wanted, SharedConsumer& consumer,
                   const std::function<bool()>& cancelled) override;

 private:
  PushforwardTileWorker(const CompiledProblem& problem, const PushforwardPlan& plan, const TileShape& shape,
                        RowOutlet outlet, Scratch scratch, Scratch tangents, RecordWindow window);

  // jacobian [inputs, outputs] of the sample with respect to `source`.
  void FillJacobian(int source, std::byte* jacobian);
  // False: the source does not reach the output.
  bool PushForward(int64_t lanes);
  absl::Status Emit(int block, int64_t sample, const std::byte* jacobian, RowRange rows, SharedConsumer& consumer,
                    const std::function<bool()>& cancelled);
  Lanes Tangent(int root) const;

  const CompiledProblem& problem_;
  const PushforwardPlan& plan_;
  const TileShape shape_;
  RowOutlet outlet_;
  Scratch scratch_;
  Scratch tangents_;
  std::vector<void*> tangent_of_;  // by root
  int moving_ = -1;                // root of the source whose tangents are seeds
  RecordWindow window_;
};

}  // namespace jacserve::worker
