// The coordinator's command line. In: argc and argv. Out: options, or an exit code after the usage was printed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>

#include "server/service/coordinator.h"

namespace jacserve::server {

struct Flags {
  CoordinatorOptions coordinator;
  std::string metrics_listen;  // empty: none
  std::string log_level = "info";
  std::filesystem::path port_file;  // empty: none
  double drain_seconds = 600;
};

// The flags, or the exit code with which to end: help and version were printed, or what is wrong.
std::variant<Flags, int> ParseFlags(int argc, char** argv);

}  // namespace jacserve::server
