// The environment of a worker process: this process's own, and which GPU it sees.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace jacserve::server {

// "NAME=VALUE" entries. GPUs are numbered by their PCI addresses; with a `uuid` that GPU alone can be seen.
std::vector<std::string> GpuEnvironment(const std::optional<std::string>& uuid);

// For exec and posix_spawn: into `entries`, which must live on, and a null at the end.
std::vector<char*> PointersTo(std::vector<std::string>& entries);

}  // namespace jacserve::server
