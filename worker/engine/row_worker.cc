#include "worker/engine/row_worker.h"

namespace jacserve::worker {

absl::Status SharedConsumer::OnSlab(const Slab& slab) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return consumer_.OnSlab(slab);
}

absl::Status SharedConsumer::OnRowsDone(RowRange rows) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return consumer_.OnRowsDone(rows);
}

}  // namespace jacserve::worker
