// The command line of jacserve-worker.
#pragma once

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "worker/service/worker_server.h"

namespace jacserve::worker {

struct Flags {
  WorkerOptions worker;
  std::vector<int> cpus;  // empty: wherever the system likes
  std::string metrics_listen;
  std::string log_level = "info";
  bool die_with_parent = false;
  bool list_gpus = false;  // print them and end
  int gpu_percent = 80;    // of a GPU's free memory, where no size of it was given
  double drain_seconds = 30;
};

// The flags, or the exit code when there is nothing to run: after --help, --version or a mistake, already printed.
std::variant<Flags, int> ParseFlags(int argc, char** argv);

}  // namespace jacserve::worker
