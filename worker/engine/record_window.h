// Records of the samples that one tile meets: all of them are kept, or a thread linearizes what its tile needs.
// In: sample numbers by lane. Out: where each lane's record lies.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "worker/engine/row_worker.h"

namespace jacserve::worker {

class RecordWindow {
 public:
  // `samples`: the most that one call of Find meets, whole chunks.
  RecordWindow(const CompiledProblem& problem, int64_t samples);

  void Find(std::span<const int32_t> sample_of, Scratch& scratch);

  // Where lanes find a value, batched or shared; no data: left out (-1), or batched and not kept.
  ConstLanes Primal(int value, const int32_t* record_of) const;

  const void* records() const { return records_; }
  const int32_t* record_of() const { return record_of_.data(); }  // by lane of the last Find

 private:
  const CompiledProblem& problem_;
  std::unique_ptr<Scratch> memory_;  // when not all records are kept
  const void* records_ = nullptr;
  std::vector<int64_t> chunks_;  // that lie in memory_
  std::vector<int32_t> record_of_;
};

}  // namespace jacserve::worker
