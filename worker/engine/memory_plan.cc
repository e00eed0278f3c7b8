#include "worker/engine/memory_plan.h"

#include <algorithm>

#include "common/budget_status.h"

namespace jacserve::worker {
namespace {

// Large enough for a chunk to be worth sending, small enough that a slot in use stays in a shared cache.
constexpr int64_t kSlotBytes = int64_t{8} << 20;

int64_t Pages(int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(const MemoryNeeds& needs, int64_t budget_bytes) {
  const int64_t smallest_slot = Pages(std::max<int64_t>(needs.largest_row_bytes, 1));
  const bool staged = needs.stage_bytes > 0;
  // What comes at a time: from a stage at most what is on it; at most everything, and the gaps between blocks.
  const double at_once = staged ? static_cast<double>(needs.stage_bytes) : 2 * needs.all_rows_bytes;
  const int64_t largest_slot = Pages(static_cast<int64_t>(std::min(at_once, static_cast<double>(kSlotBytes))));
  const int64_t all_bytes = needs.samples * needs.record_bytes;
  const int64_t window_bytes = std::min(needs.window_samples, needs.samples) * needs.record_bytes;
  for (int threads = std::max(needs.threads, 1); threads >= 1; --threads) {
    const int64_t base = needs.fixed_bytes + threads * needs.thread_bytes;
    for (const bool keep_all : {true, false}) {
      const int64_t records = keep_all ? all_bytes : threads * window_bytes;
      for (const int64_t slot : {std::max(smallest_slot, largest_slot), smallest_slot}) {
        const int64_t room = budget_bytes - base - records, most_slots = 2 * threads + 4;
        if (staged && room >= 0) {
          return MemoryPlan{threads, keep_all, most_slots, slot, base + records};
        }
        // One slot being filled per thread and one on its way; records may take half of what is left, no more.
        if (room < (threads + 1) * slot ||
            (keep_all && records > (budget_bytes - base) / 2 && all_bytes > window_bytes)) {
          continue;
        }
        const int64_t slots = std::clamp<int64_t>(room / slot, threads + 1, most_slots);
        return MemoryPlan{threads, keep_all, slots, slot, base + records + slots * slot};
      }
    }
  }
  const int64_t slot_bytes = staged ? 0 : 2 * smallest_slot;
  const int64_t smallest = needs.fixed_bytes + needs.thread_bytes + std::min(window_bytes, all_bytes) + slot_bytes;
  return BudgetTooSmall(budget_bytes, smallest);
}

}  // namespace jacserve::worker
