#include "server/schedule/gpu_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstring>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/cpu_list.h"
#include "common/status.h"
#include "nlohmann/json.hpp"
#include "server/schedule/gpu_environment.h"

namespace jacserve::server {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

// Starts the program with both outputs on `pipe_end`. The process id, or minus the error.
pid_t SpawnProbe(const std::string& program, int pipe_end) {
  char flag[] = "--list-gpus";
  char* const argv[] = {const_cast<char*>(program.c_str()), flag, nullptr};
  std::vector<std::string> entries = GpuEnvironment(std::nullopt);
  const std::vector<char*> environment = PointersTo(entries);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe_end, STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -error;
}

// What can be read from `descriptor` before its end; false: not within `patience`.
bool ReadAll(int descriptor, std::chrono::milliseconds patience, std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  char buffer[4096];
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    struct pollfd ready = {descriptor, POLLIN, 0};
    if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) <= 0) return false;
    const ssize_t bytes = read(descriptor, buffer, sizeof buffer);
    if (bytes <= 0) return bytes == 0;
    text.append(buffer, static_cast<size_t>(bytes));
    if (text.size() > kMostBytes) return false;
  }
}

absl::StatusOr<std::vector<Gpu>> FromJson(const std::string& text) {
  const auto list = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<Gpu> gpus;
  if (!list.is_array())
    return absl::FailedPreconditionError("the worker program lists no GPUs; install one of this version");
  for (const auto& entry : list) {
    const auto field = [&](const char* name) {
      return entry.is_object() && entry.contains(name) && entry[name].is_string() ? entry[name].get<std::string>() : "";
    };
    gpus.push_back({field("uuid"), field("name"), field("pci_bus_id")});
  }
  return gpus;
}

}  // namespace

absl::StatusOr<std::vector<Gpu>> ListGpus(const std::filesystem::path& program, std::chrono::milliseconds patience) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "no pipe for the list of GPUs");
  const pid_t pid = SpawnProbe(program.string(), ends[1]);
  close(ends[1]);
  std::string text;
  const bool ended = pid > 0 && ReadAll(ends[0], patience, text);
  close(ends[0]);
  if (pid <= 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(program.filename().string(), " cannot be started: ", std::strerror(-pid)));
  }
  if (!ended) kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  if (!ended) return absl::DeadlineExceededError("counting the GPUs took too long; is the driver well?");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return FromJson(text);
  absl::string_view words = absl::StripAsciiWhitespace(text);
  absl::ConsumePrefix(&words, "jacserve-worker: ");
  return absl::FailedPreconditionError(words.empty() ? "counting the GPUs failed without a word" : words);
}

std::vector<int> CoresNear(const Gpu& gpu) {
  for (const char c : gpu.pci_bus_id) {  // it becomes a part of a path
    if (!std::isxdigit(static_cast<unsigned char>(c)) && c != ':' && c != '.') return {};
  }
  std::ifstream file(absl::StrCat("/sys/bus/pci/devices/", absl::AsciiStrToLower(gpu.pci_bus_id), "/local_cpulist"));
  std::string text;
  std::getline(file, text);
  return ParseCpuList(text).value_or(std::vector<int>());
}

}  // namespace jacserve::server
