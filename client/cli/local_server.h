// A private coordinator for one command. In: how many workers, their memory. Out: an address; nothing is left behind,
// neither a process nor a file, however the command ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace jacserve::client {

struct LocalServerOptions {
  std::string workers = "auto";  // a count or "auto"
  std::string device = "auto";
  std::string worker_memory_budget;  // empty: the worker's default
  std::string program;               // empty: looked for (FindCoordinator)
};

// Beside this program, in the folder JACSERVE_BIN, or on PATH. NotFound: nowhere.
absl::StatusOr<std::string> FindCoordinator();

class LocalServer {
 public:
  // Starts it and waits for its address. Call from the main thread, before gRPC is used: the kernel ends the process
  // with the thread that started it. `stop` ends the waiting, and is requested when the coordinator dies by itself.
  // Unavailable: it ended or never answered, with the last lines of its log.
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start(const LocalServerOptions& options, std::stop_source stop);

  // SIGTERM, after a while SIGKILL; then the temporary folder is removed.
  ~LocalServer();

  const std::string& target() const { return target_; }  // HOST:PORT

  // Whether the coordinator has ended by itself.
  bool died() const;

  // Unavailable: that it ended, or that no worker of its came up, with the last lines of its log.
  absl::Status Obituary() const;
  absl::Status NoWorkers() const;

 private:
  LocalServer() = default;
  absl::Status Spawn(const std::string& program, const LocalServerOptions& options);
  absl::Status WaitForAddress(const std::stop_token& stop);
  std::string LastLogLines() const;

  std::string folder_;
  std::string target_;
  pid_t pid_ = -1;
  std::jthread watcher_;
};

}  // namespace jacserve::client
