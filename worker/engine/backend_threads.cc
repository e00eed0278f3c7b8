// The first thread is the caller's own.
#include "worker/engine/backend_threads.h"

#include <mutex>
#include <thread>

#include "common/status.h"

namespace jacserve::worker {

absl::Status OnThreads(int threads, const Backend& backend, const std::function<absl::Status(int)>& work) {
  std::mutex mutex;
  absl::Status first = absl::OkStatus();
  const auto run = [&](int thread) {
    const absl::StatusOr<std::shared_ptr<void>> entered = backend.EnterThread();
    absl::Status status = entered.ok() ? work(thread) : entered.status();
    const std::lock_guard<std::mutex> lock(mutex);
    first.Update(status);
  };
  std::vector<std::jthread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
  others.clear();
  return first;
}

absl::StatusOr<EnteredThreads> EnteredThreads::Make(int threads, const Backend& backend) {
  EnteredThreads result;
  for (int thread = 0; thread < threads; ++thread) {
    ASSIGN_OR_RETURN(std::shared_ptr<void> entered, backend.EnterThread());
    result.entered_.push_back(std::move(entered));
  }
  return result;
}

EnteredThreads::~EnteredThreads() {
  while (!entered_.empty()) entered_.pop_back();  // the last one in is the first one out
}

}  // namespace jacserve::worker
