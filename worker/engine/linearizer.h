// Runs the sample program forward and keeps, per sample, what the pullbacks read: its record.
// In: input batches. Out: records, and f's output (the embeddings).
// Samples run in chunks at fixed places of the batch, so that a record's bits depend on nothing but the batch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/backend/backend.h"
#include "worker/engine/pullback_plan.h"
#include "worker/engine/shared_values.h"
#include "worker/engine/value_rounding.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

class Linearizer {
 public:
  Linearizer(const SampleProgram& program, const PullbackPlan& plan, const Backend& backend,
             const ValueRounding& rounding);

  // Numbers of each source that is a batched input, [samples, sample]; null for other sources. One entry per batch.
  using BatchInputs = std::vector<std::shared_ptr<const void>>;
  void SetInputs(std::vector<BatchInputs> batches, std::vector<int64_t> samples, const SharedValues* shared);

  int64_t record_elements() const { return record_elements_; }
  int64_t chunk_samples() const { return chunk_; }
  int64_t ScratchBytes() const;  // that Forward takes

  // Chunks of all batches, the first batch's first.
  int64_t chunks() const;
  struct ChunkRange {
    int batch;
    int64_t begin, count;  // samples within the batch
    int64_t first_sample;  // counted over all batches
  };
  ChunkRange Chunk(int64_t chunk) const;
  int64_t ChunkOf(int64_t sample) const;  // sample counted over all batches

  // Forward for one chunk. records: chunk count lanes of record_elements(). embeddings: [count, D], or null.
  void Forward(int64_t chunk, Lanes records, void* embeddings, Scratch& scratch) const;

  // Where lanes find a batched value, or what a node saved, in records; no data when it is not kept.
  ConstLanes InRecord(int root, const void* records, const int32_t* record_of) const;
  ConstLanes SavedInRecord(int node, const void* records, const int32_t* record_of) const;

 private:
  const SampleProgram& program_;
  const PullbackPlan& plan_;
  const Backend& backend_;
  const ValueRounding& rounding_;
  const SharedValues* shared_ = nullptr;
  std::vector<BatchInputs> inputs_;
  std::vector<int64_t> samples_;
  std::vector<int64_t> value_offset_, saved_offset_;  // in a record; -1: not kept
  int64_t record_elements_ = 0;
  int64_t transient_elements_ = 0;  // per sample, for what is not kept
  int64_t op_scratch_elements_ = 0;
  int64_t chunk_ = 1;
};

}  // namespace jacserve::worker
