#include "client/cli/local_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "client/cpp/array_io/file_bytes.h"
#include "client/cpp/text.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr char kProgram[] = "jacserve-coordinator";
constexpr std::chrono::seconds kStartTimeout(30);
constexpr std::chrono::seconds kEndTimeout(4);
constexpr std::chrono::milliseconds kPoll(10);
constexpr std::chrono::milliseconds kWatch(100);
constexpr int64_t kLogTailBytes = 2'000;
constexpr size_t kLogTailLines = 6;

bool IsProgram(const std::string& path) { return ::access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path); }

// The child between fork and exec: only calls that are safe there.
[[noreturn]] void BecomeCoordinator(char* const* arguments, char* const* environment, int log_fd, pid_t parent) {
  ::setpgid(0, 0);  // the terminal's Ctrl-C is for the parent, which then ends this process in order
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(EXIT_FAILURE);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  const int null_fd = ::open("/dev/null", O_RDONLY);
  if (null_fd >= 0) ::dup2(null_fd, STDIN_FILENO);
  ::dup2(log_fd, STDOUT_FILENO);
  ::dup2(log_fd, STDERR_FILENO);
  ::execve(arguments[0], arguments, environment);
  ::_exit(127);
}

// This process's environment, but temporary files go to `folder`, which is removed whatever the coordinator leaves.
std::vector<std::string> EnvironmentFor(const std::string& folder) {
  std::vector<std::string> entries = {Cat("TMPDIR=", folder)};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("TMPDIR=")) entries.emplace_back(*entry);
  }
  return entries;
}

std::vector<char*> PointersTo(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

bool HasEnded(pid_t pid) {
  siginfo_t info = {};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

// "PORT" or "HOST:PORT" as the coordinator wrote it; empty when it is not there yet.
std::string AddressIn(const std::string& port_file) {
  std::ifstream file(port_file);
  std::string text;
  if (!std::getline(file, text) || file.eof()) return "";  // the line's end shows that it is complete
  int port = 0;
  const std::string port_text = text.substr(text.rfind(':') + 1);
  if (!absl::SimpleAtoi(port_text, &port) || port < 1 || port > 65535) return "";
  return Cat("127.0.0.1:", port);
}

}  // namespace

absl::StatusOr<std::string> FindCoordinator() {
  std::vector<std::string> folders;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(self.parent_path().string());
  if (const char* bin = std::getenv("JACSERVE_BIN"); bin != nullptr && *bin != '\0') folders.emplace_back(bin);
  if (const char* path = std::getenv("PATH"); path != nullptr) {
    for (absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) folders.emplace_back(folder);
  }
  for (const std::string& folder : folders) {
    std::string program = Cat(folder, "/", kProgram);
    if (IsProgram(program)) return program;
  }
  return absl::NotFoundError(Cat("--local: ", kProgram,
                                 " was found neither beside jacserve nor in JACSERVE_BIN nor on ",
                                 "PATH; install it, or give a server with --server HOST:PORT"));
}

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(const LocalServerOptions& options,
                                                                std::stop_source stop) {
  std::string program = options.program;
  if (program.empty()) {
    ASSIGN_OR_RETURN(program, FindCoordinator());
  }
  std::unique_ptr<LocalServer> server(new LocalServer());
  std::error_code error;
  std::string folder = Cat(fs::temp_directory_path(error).string(), "/jacserve-XXXXXX");
  if (::mkdtemp(folder.data()) == nullptr) return FileError(errno, folder, "cannot be created");
  server->folder_ = folder;
  RETURN_IF_ERROR(server->Spawn(program, options));
  RETURN_IF_ERROR(server->WaitForAddress(stop.get_token()));
  server->watcher_ = std::jthread([pid = server->pid_, stop](const std::stop_token& done) mutable {
    while (!done.stop_requested() && !HasEnded(pid)) std::this_thread::sleep_for(kWatch);
    if (!done.stop_requested()) stop.request_stop();
  });
  return server;
}

absl::Status LocalServer::Spawn(const std::string& program, const LocalServerOptions& options) {
  std::vector<std::string> words = {program,
                                    "--listen",
                                    "127.0.0.1:0",
                                    "--port-file",
                                    Cat(folder_, "/port"),
                                    "--state-dir",
                                    Cat(folder_, "/state"),
                                    "--local-workers",
                                    options.workers,
                                    "--device",
                                    options.device,
                                    "--log-level",
                                    "warning"};
  if (!options.worker_memory_budget.empty()) {
    words.insert(words.end(), {"--worker-memory-budget", options.worker_memory_budget});
  }
  std::vector<std::string> entries = EnvironmentFor(folder_);
  const std::vector<char*> arguments = PointersTo(words), environment = PointersTo(entries);
  const std::string log = Cat(folder_, "/log");
  const Descriptor log_file(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log_file.is_open()) return FileError(errno, log, "cannot be created");
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) return absl::ErrnoToStatus(errno, "--local: no process can be started");
  if (pid_ == 0) BecomeCoordinator(arguments.data(), environment.data(), log_file.get(), parent);
  return absl::OkStatus();
}

absl::Status LocalServer::WaitForAddress(const std::stop_token& stop) {
  const Clock::time_point deadline = Clock::now() + kStartTimeout;
  while (!stop.stop_requested()) {
    target_ = AddressIn(Cat(folder_, "/port"));
    if (!target_.empty()) return absl::OkStatus();
    if (died()) return Obituary();
    if (Clock::now() >= deadline) {
      return absl::UnavailableError(Cat("the private coordinator does not answer; its last words: ", LastLogLines()));
    }
    std::this_thread::sleep_for(kPoll);
  }
  return absl::CancelledError("interrupted");
}

LocalServer::~LocalServer() {
  if (watcher_.joinable()) {
    watcher_.request_stop();
    watcher_.join();
  }
  if (pid_ > 0) {
    // The second one ends jobs that the first lets run on.
    for (int i = 0; i < 2 && !HasEnded(pid_); ++i) {
      ::kill(pid_, SIGTERM);
      const Clock::time_point deadline = Clock::now() + kEndTimeout;
      while (!HasEnded(pid_) && Clock::now() < deadline) std::this_thread::sleep_for(kPoll);
    }
    ::kill(-pid_,
           SIGKILL);  // whatever of its group did not end; the coordinator is not reaped yet, so the group is its
    ::waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

bool LocalServer::died() const { return HasEnded(pid_); }

absl::Status LocalServer::Obituary() const {
  return absl::UnavailableError(Cat("the private coordinator ended unexpectedly; its last words: ", LastLogLines()));
}

absl::Status LocalServer::NoWorkers() const {
  return absl::UnavailableError(Cat("no private worker came up; the coordinator's last words: ", LastLogLines()));
}

std::string LocalServer::LastLogLines() const {
  std::ifstream file(Cat(folder_, "/log"), std::ios::ate);
  const auto size = static_cast<int64_t>(file.tellg());
  file.seekg(std::max<int64_t>(0, size - kLogTailBytes));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  if (lines.empty()) return "(none)";
  std::string text;
  for (size_t i = lines.size() - std::min(lines.size(), kLogTailLines); i < lines.size(); ++i)
    text += Cat("\n  ", lines[i]);
  return text;
}

}  // namespace jacserve::client
