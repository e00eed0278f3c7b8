// Worker processes that the coordinator starts itself: pinned to cores of their own, started again when they die, and
// gone when it goes.
// In: the worker program, how many, on which cores. Out: processes, and a call for each one that ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace jacserve::server {

// Cores that this process may run on.
std::vector<int> AvailableCores();

// How many workers suit so many cores: one for each two, both of two.
int AutoWorkerCount(int cores);

// Disjoint shares of about the same size, one for each worker; workers beyond the cores share one each.
std::vector<std::vector<int>> ShareCores(const std::vector<int>& cores, int workers);

struct LocalWorkersOptions {
  std::filesystem::path program;
  int count = 0;
  std::filesystem::path socket_directory;  // private to this user
  std::string coordinator_address;
  int64_t memory_budget_bytes = 0;  // 0: the worker's default
  std::string backend;              // empty: the worker's default
  std::string log_level = "info";
  std::chrono::milliseconds first_backoff{200};
  std::chrono::milliseconds last_backoff{30'000};
  std::chrono::milliseconds stop_time{3'000};  // between SIGTERM and SIGKILL
};

class LocalWorkers {
 public:
  // `on_exit` is told the worker's id after its process has ended, on the supervising thread. NotFound: no such
  // program. InvalidArgument: a count that is not positive.
  static absl::StatusOr<std::unique_ptr<LocalWorkers>> Start(LocalWorkersOptions options,
                                                             std::function<void(const std::string&)> on_exit);
  ~LocalWorkers();  // stops them

  // Processes that run now.
  std::vector<pid_t> Pids() const;

 private:
  struct Slot {
    std::string id;
    std::vector<std::string> arguments;
    pid_t pid = 0;  // 0: not running
    std::chrono::steady_clock::time_point started;
    std::chrono::steady_clock::time_point next_start;
    std::chrono::milliseconds backoff{0};
  };

  LocalWorkers(LocalWorkersOptions options, std::function<void(const std::string&)> on_exit);

  // All processes are forked, watched and reaped by this one thread: the kernel ends a worker with the *thread* that
  // forked it.
  void Supervise();
  void Spawn(Slot& slot);
  bool Reap(Slot& slot);
  void StopAll();

  const LocalWorkersOptions options_;
  const std::function<void(const std::string&)> on_exit_;
  mutable std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::vector<Slot> slots_;
  std::thread thread_;
};

}  // namespace jacserve::server
