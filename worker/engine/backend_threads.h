// Threads that compute on a backend.
// In: how many, and what each does. Out: the first error.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"

namespace jacserve::worker {

// Runs work(thread) on `threads` threads, each of which has entered the backend, and returns the first error.
absl::Status OnThreads(int threads, const Backend& backend, const std::function<absl::Status(int)>& work);

// As if this many threads had entered the backend: what it keeps for each of them is there.
class EnteredThreads {
 public:
  static absl::StatusOr<EnteredThreads> Make(int threads, const Backend& backend);
  EnteredThreads(EnteredThreads&&) = default;
  ~EnteredThreads();

 private:
  EnteredThreads() = default;
  std::vector<std::shared_ptr<void>> entered_;
};

}  // namespace jacserve::worker
