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
  // lanes, samples: the most that one call of Find meets, the samples in whole chunks. ResourceExhausted: as
  // Memory::Allocate.
  static absl::StatusOr<RecordWindow> Make(const CompiledProblem& problem, int64_t lanes, int64_t samples);

  // After a Wait since the last one.
  void Find(std::span<const int32_t> sample_of, Scratch& scratch);

  // Where lanes find a value, batched or shared; no data: left out (-1), or batched and not kept.
  ConstLanes Primal(int value, const int32_t* record_of) const;

  const void* records() const { return records_; }
  const int32_t* record_of() const {
    return static_cast<const int32_t*>(record_of_.get());
  }  // by lane of the last Find

 private:
  void FillWindow(std::span<const int32_t> sample_of, int32_t* record_of, Scratch& scratch);

  explicit RecordWindow(const CompiledProblem& problem) : problem_(problem) {}

  const CompiledProblem& problem_;
  Buffer memory_;  // when not all records are kept
  int64_t samples_ = 0;
  const void* records_ = nullptr;
  std::vector<int64_t> chunks_;  // that lie in memory_
  Buffer record_of_;             // an index array
};

}  // namespace jacserve::worker
