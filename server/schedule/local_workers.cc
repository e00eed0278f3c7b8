#include "server/schedule/local_workers.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/size_text.h"
#include "common/status.h"
#include "server/schedule/gpu_environment.h"

namespace jacserve::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kPollInterval = milliseconds(20);
constexpr auto kHealthyTime = std::chrono::seconds(10);  // a worker that lived so long starts again at once

// Starts `program` in a process group of its own, so that Ctrl-C reaches the coordinator alone, with default signals.
// The process id, or minus the error.
pid_t SpawnProcess(const std::string& program, const std::vector<std::string>& arguments,
                   const std::optional<std::string>& gpu) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<std::string> entries = GpuEnvironment(gpu);
  const std::vector<char*> environment = PointersTo(entries);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  // Their standard output is nobody's: what the coordinator prints is for scripts.
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) sigaddset(&defaults, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error == 0 ? pid : -error;
}

// Where the workers go, and a word about it.
absl::StatusOr<std::vector<WorkerPlace>> FindPlaces(const LocalWorkersOptions& options) {
  absl::StatusOr<std::vector<Gpu>> gpus = std::vector<Gpu>();
  std::vector<std::vector<int>> near;
  if (options.device == WorkerDevice::kAuto || options.device == WorkerDevice::kCuda) {
    gpus = ListGpus(options.program);
    for (const Gpu& gpu : gpus.ok() ? *gpus : std::vector<Gpu>()) near.push_back(CoresNear(gpu));
    if (!gpus.ok()) spdlog::info("no GPU: {}", std::string(gpus.status().message()));
  }
  ASSIGN_OR_RETURN(std::vector<WorkerPlace> places,
                   ChoosePlaces(options.device, options.count, AvailableCores(), gpus, near));
  for (size_t i = 0; i < places.size(); ++i) {
    const WorkerPlace& place = places[i];
    spdlog::info("worker local-{} on {}, cores {}", i,
                 place.gpu ? place.gpu->name + " " + place.gpu->uuid : place.backend, absl::StrJoin(place.cores, ","));
  }
  return places;
}

std::string HowItEnded(int status) {
  return WIFSIGNALED(status) ? absl::StrCat("was ended by signal ", WTERMSIG(status))
                             : absl::StrCat("exited with code ", WEXITSTATUS(status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalWorkers>> LocalWorkers::Start(LocalWorkersOptions options,
                                                                  std::function<void(const std::string&)> on_exit) {
  if (options.count <= 0 && options.count != kAutoWorkers) {
    return absl::InvalidArgumentError("the number of local workers must be positive");
  }
  if (access(options.program.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("the program '", options.program.filename().string(),
                                            "' is not beside jacserve-coordinator; install both into one folder"));
  }
  ASSIGN_OR_RETURN(const std::vector<WorkerPlace> places, FindPlaces(options));
  return std::unique_ptr<LocalWorkers>(new LocalWorkers(std::move(options), places, std::move(on_exit)));
}

LocalWorkers::LocalWorkers(LocalWorkersOptions options, const std::vector<WorkerPlace>& places,
                           std::function<void(const std::string&)> on_exit)
    : options_(std::move(options)), on_exit_(std::move(on_exit)) {
  for (size_t i = 0; i < places.size(); ++i) {
    const WorkerPlace& place = places[i];
    Slot slot;
    slot.id = absl::StrCat("local-", i);
    const std::filesystem::path socket = options_.socket_directory / absl::StrCat("worker-", i);
    slot.arguments = {"--listen",
                      absl::StrCat("unix:", socket.string()),
                      "--coordinator",
                      options_.coordinator_address,
                      "--id",
                      slot.id,
                      "--device",
                      place.backend,
                      "--cpus",
                      absl::StrJoin(place.cores, ","),
                      "--die-with-parent",
                      "--log-level",
                      options_.log_level};
    if (place.gpu) {
      slot.gpu = place.gpu->uuid;
    } else {  // a GPU's threads wait for it more than they compute
      slot.arguments.insert(slot.arguments.end(), {"--threads", absl::StrCat(place.cores.size())});
    }
    if (!options_.memory_budget.empty()) {
      slot.arguments.insert(slot.arguments.end(), {"--memory-budget", options_.memory_budget});
    }
    slots_.push_back(std::move(slot));
  }
  thread_ = std::thread([this] { Supervise(); });
}

LocalWorkers::~LocalWorkers() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

std::vector<pid_t> LocalWorkers::Pids() const {
  std::lock_guard lock(mutex_);
  std::vector<pid_t> pids;
  for (const Slot& slot : slots_) {
    if (slot.pid != 0) pids.push_back(slot.pid);
  }
  return pids;
}

void LocalWorkers::Supervise() {
  while (true) {
    std::vector<std::string> ended;
    {
      std::unique_lock lock(mutex_);
      for (Slot& slot : slots_) {
        if (slot.pid != 0 && Reap(slot)) ended.push_back(slot.id);
        if (slot.pid == 0 && steady_clock::now() >= slot.next_start) Spawn(slot);
      }
      if (ended.empty()) stop_.wait_for(lock, kPollInterval, [&] { return stopping_; });
      if (stopping_) break;
    }
    for (const std::string& id : ended) on_exit_(id);
  }
  StopAll();
}

void LocalWorkers::Spawn(Slot& slot) {
  slot.started = steady_clock::now();
  const pid_t pid = SpawnProcess(options_.program.string(), slot.arguments, slot.gpu);
  if (pid > 0) {
    slot.pid = pid;
    return;
  }
  slot.backoff = std::min(std::max(slot.backoff * 2, options_.first_backoff), options_.last_backoff);
  slot.next_start = slot.started + slot.backoff;
  spdlog::error("worker {} cannot be started: {}; next attempt in {}", slot.id, std::strerror(-pid),
                DurationText(std::chrono::duration<double>(slot.backoff).count()));
}

bool LocalWorkers::Reap(Slot& slot) {
  int status = 0;
  if (waitpid(slot.pid, &status, WNOHANG) != slot.pid) return false;
  const auto now = steady_clock::now();
  slot.pid = 0;
  const bool had_work = options_.had_work && options_.had_work(slot.id, slot.started);
  const bool was_healthy = had_work || now - slot.started > kHealthyTime;
  slot.backoff = was_healthy ? options_.first_backoff
                             : std::min(std::max(slot.backoff * 2, options_.first_backoff), options_.last_backoff);
  slot.next_start = now + slot.backoff;
  if (!stopping_) {
    spdlog::warn("worker {} {}; it starts again in {}", slot.id, HowItEnded(status),
                 DurationText(std::chrono::duration<double>(slot.backoff).count()));
  }
  return true;
}

void LocalWorkers::StopAll() {
  std::lock_guard lock(mutex_);
  for (const Slot& slot : slots_) {
    if (slot.pid != 0) kill(slot.pid, SIGTERM);
  }
  const auto deadline = steady_clock::now() + options_.stop_time;
  const auto running = [](const Slot& slot) { return slot.pid != 0; };
  while (std::any_of(slots_.begin(), slots_.end(), running) && steady_clock::now() < deadline) {
    for (Slot& slot : slots_) {
      if (slot.pid != 0) Reap(slot);
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  for (Slot& slot : slots_) {
    if (slot.pid == 0) continue;
    kill(slot.pid, SIGKILL);
    waitpid(slot.pid, nullptr, 0);
    slot.pid = 0;
  }
}

}  // namespace jacserve::server
