// How the memory budget is spent. Pure arithmetic: sizes in, sizes out.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace jacserve::worker {

struct MemoryNeeds {
  int64_t fixed_bytes = 0;   // weights, inputs, embeddings: held whatever is computed
  int64_t record_bytes = 0;  // of one sample
  int64_t samples = 0;
  int64_t window_samples = 0;     // records that one tile needs when not all are kept
  int64_t thread_bytes = 0;       // scratch and cotangents of one thread
  int64_t largest_row_bytes = 0;  // of one block
  double all_rows_bytes = 0;      // of all blocks
  int threads = 1;
  int64_t stage_bytes = 0;  // of one thread's finished rows, when slots are in other memory than what is planned here
};

struct MemoryPlan {
  int threads = 1;
  bool keep_all_samples = false;
  int64_t slots = 0;
  int64_t slot_bytes = 0;
  int64_t total_bytes = 0;
};

// Fewer threads, then fewer kept samples, then smaller slots when the budget is short. ResourceExhausted: it is shorter
// than the smallest that works, which is said.
absl::StatusOr<MemoryPlan> PlanMemory(const MemoryNeeds& needs, int64_t budget_bytes);

}  // namespace jacserve::worker
