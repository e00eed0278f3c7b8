// Worker processes that the coordinator starts itself: pinned to cores, and to a GPU, of their own, started again when
// they die, and gone when it goes.
// In: the worker program, how many, on what. Out: processes, and a call for each one that ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/schedule/worker_places.h"

namespace jacserve::server {

struct LocalWorkersOptions {
  std::filesystem::path program;
  int count = 0;  // or kAutoWorkers
  WorkerDevice device = WorkerDevice::kAuto;
  std::filesystem::path socket_directory;  // private to this user
  std::string coordinator_address;
  std::string memory_budget;  // "512MiB", of a GPU also "80%"; empty: the worker's default
  std::string log_level = "info";
  // Whether the worker of this id was given anything to do since then. One that died of it starts again after
  // first_backoff, so that no other request waits for it; one that dies of itself ever more seldom.
  std::function<bool(const std::string& id, std::chrono::steady_clock::time_point since)> had_work;
  std::chrono::milliseconds first_backoff{200};
  std::chrono::milliseconds last_backoff{30'000};
  std::chrono::milliseconds stop_time{3'000};  // between SIGTERM and SIGKILL
};

class LocalWorkers {
 public:
  // `on_exit` is told the worker's id after its process has ended, on the supervising thread. NotFound: no such
  // program. InvalidArgument: a count that is not positive, or too many for the GPUs. FailedPrecondition: a GPU is
  // asked for and there is none.
  static absl::StatusOr<std::unique_ptr<LocalWorkers>> Start(LocalWorkersOptions options,
                                                             std::function<void(const std::string&)> on_exit);
  ~LocalWorkers();  // stops them

  // Processes that run now.
  std::vector<pid_t> Pids() const;
  int count() const { return static_cast<int>(slots_.size()); }

 private:
  struct Slot {
    std::string id;
    std::vector<std::string> arguments;
    std::optional<std::string> gpu;  // its UUID
    pid_t pid = 0;                   // 0: not running
    std::chrono::steady_clock::time_point started;
    std::chrono::steady_clock::time_point next_start;
    std::chrono::milliseconds backoff{0};
  };

  LocalWorkers(LocalWorkersOptions options, const std::vector<WorkerPlace>& places,
               std::function<void(const std::string&)> on_exit);

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
