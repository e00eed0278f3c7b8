// The program jacserve-coordinator as scripts and operators meet it: flags, port file, signals, health, metrics.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "jacserve/v1/jacobian_service.grpc.pb.h"

extern char** environ;

namespace jacserve::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string ContentOf(const fs::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

bool WaitFor(const std::function<bool()>& condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class CoordinatorProcess : public testing::Test {
 protected:
  CoordinatorProcess() {
    std::string name = testing::TempDir() + "jacserve-process-XXXXXX";
    directory_ = mkdtemp(name.data());
  }
  ~CoordinatorProcess() override {
    for (pid_t pid : running_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    fs::remove_all(directory_);
  }

  // Its log is directory_/log.
  pid_t Start(std::vector<std::string> flags) {
    const std::string program = (fs::path(getenv("JACSERVE_BIN")) / "jacserve-coordinator").string();
    flags.insert(flags.begin(), program);
    std::vector<char*> arguments;
    for (std::string& flag : flags) arguments.push_back(flag.data());
    arguments.push_back(nullptr);
    std::vector<char*> environment;
    for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
    const std::string bin = absl::StrCat("JACSERVE_BIN=", directory_.string());
    for (char*& variable : environment) {
      if (std::string_view(variable).starts_with("JACSERVE_BIN=")) variable = const_cast<char*>(bin.c_str());
    }
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, (directory_ / "log").c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments.data(), environment.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    running_.push_back(pid);
    return pid;
  }

  std::vector<std::string> Flags(std::vector<std::string> more = {}) const {
    std::vector<std::string> flags = {"--listen",    "127.0.0.1:0",
                                      "--state-dir", (directory_ / "state").string(),
                                      "--port-file", (directory_ / "port").string()};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }

  int Port() {
    EXPECT_TRUE(WaitFor([&] { return fs::exists(directory_ / "port"); })) << ContentOf(directory_ / "log");
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(ContentOf(directory_ / "port"), &port));
    return port;
  }

  std::shared_ptr<grpc::Channel> Channel() {
    return grpc::CreateChannel(absl::StrCat("127.0.0.1:", Port()), grpc::InsecureChannelCredentials());
  }

  // The exit code, or minus the signal.
  int Wait(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    std::erase(running_, pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // A worker program that sees no GPU and lives until its parent's end, as jacserve-worker --die-with-parent does.
  void InstallFakeWorker() {
    const fs::path program = directory_ / "jacserve-worker";
    std::ofstream(program) << "#!/bin/sh\n[ \"$1\" != --list-gpus ] || exit 1\necho $$ >> "
                           << (directory_ / "workers").string() << "\nexec setpriv --pdeathsig KILL sleep 1000\n";
    chmod(program.c_str(), 0700);
  }

  std::vector<pid_t> FakeWorkers() const {
    std::ifstream file(directory_ / "workers");
    std::vector<pid_t> pids;
    for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
    return pids;
  }

  fs::path directory_;
  std::vector<pid_t> running_;
};

TEST_F(CoordinatorProcess, AnswersAtThePortInItsFileAndEndsOnSigterm) {
  const pid_t pid = Start(Flags());
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(v1::JacobianService::NewStub(Channel())->GetServerInfo(&context, {}, &info).ok());
  EXPECT_FALSE(info.version().empty());
  EXPECT_EQ(info.workers_ready(), 0);
  kill(pid, SIGTERM);
  EXPECT_EQ(Wait(pid), 0);
}

TEST_F(CoordinatorProcess, SecondOneOnTheStateDirectoryEnds) {
  Start(Flags());
  Port();
  EXPECT_EQ(Wait(Start(Flags())), 1);
  EXPECT_THAT(ContentOf(directory_ / "log"), HasSubstr("in use by another coordinator"));
}

TEST_F(CoordinatorProcess, SecondOneOnThePortEnds) {
  Start(Flags());
  const std::string listen = absl::StrCat("127.0.0.1:", Port());
  EXPECT_EQ(Wait(Start({"--listen", listen, "--state-dir", (directory_ / "other").string()})), 1);
  EXPECT_THAT(ContentOf(directory_ / "log"), HasSubstr(listen));
}

TEST_F(CoordinatorProcess, WrongFlagsAreExplained) {
  const std::vector<std::vector<std::string>> wrong = {
      {}, Flags({"--store-quota", "lots"}), Flags({"--local-workers", "-1"}), Flags({"--log-level", "loud"})};
  for (const auto& flags : wrong) EXPECT_GT(Wait(Start(flags)), 0);
  const std::string log = ContentOf(directory_ / "log");
  for (const char* word : {"--state-dir", "lots", "-1", "loud"}) EXPECT_THAT(log, HasSubstr(word));
}

TEST_F(CoordinatorProcess, MissingWorkerProgramIsNamed) {
  EXPECT_EQ(Wait(Start(Flags({"--local-workers", "1"}))), 1);
  EXPECT_THAT(ContentOf(directory_ / "log"), HasSubstr("jacserve-worker"));
}

TEST_F(CoordinatorProcess, IsHealthyAndReflects) {
  Start(Flags());
  const auto channel = Channel();
  {
    grpc::ClientContext context;
    const grpc::internal::RpcMethod check("/grpc.health.v1.Health/Check", grpc::internal::RpcMethod::NORMAL_RPC);
    const grpc::Slice empty;
    const grpc::ByteBuffer request(&empty, 1);
    grpc::ByteBuffer response;
    ASSERT_TRUE((grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(channel.get(), check, &context,
                                                                                       request, &response))
                    .ok());
    grpc::Slice bytes;
    ASSERT_TRUE(response.DumpToSingleSlice(&bytes).ok());
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "\x08\x01");  // status: SERVING
  }
  grpc::ClientContext context;
  const grpc::internal::RpcMethod reflect("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                          grpc::internal::RpcMethod::BIDI_STREAMING);
  const std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(channel.get(), reflect,
                                                                                            &context));
  const grpc::Slice list_services("\x3a\x01*");
  ASSERT_TRUE(stream->Write(grpc::ByteBuffer(&list_services, 1)));
  grpc::ByteBuffer response;
  ASSERT_TRUE(stream->Read(&response));
  grpc::Slice bytes;
  ASSERT_TRUE(response.DumpToSingleSlice(&bytes).ok());
  const std::string services(bytes.begin(), bytes.end());
  EXPECT_THAT(services, HasSubstr("jacserve.v1.JacobianService"));
  EXPECT_THAT(services, HasSubstr("jacserve.v1.WorkerRegistry"));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(CoordinatorProcess, KilledTakesItsWorkersAlong) {
  InstallFakeWorker();
  const pid_t pid = Start(Flags({"--local-workers", "2"}));
  ASSERT_TRUE(WaitFor([&] { return FakeWorkers().size() == 2; })) << ContentOf(directory_ / "log");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // for setpriv to take effect
  kill(pid, SIGKILL);
  EXPECT_EQ(Wait(pid), -SIGKILL);
  for (pid_t worker : FakeWorkers()) {
    EXPECT_TRUE(WaitFor([&] {
      return kill(worker, 0) != 0 ||
             ContentOf(absl::StrCat("/proc/", worker, "/stat")).find(") Z") != std::string::npos;
    }));
  }
}

TEST_F(CoordinatorProcess, EndsItsWorkersAndRemovesItsSockets) {
  InstallFakeWorker();
  const pid_t pid = Start(Flags({"--local-workers", "1"}));
  ASSERT_TRUE(WaitFor([&] { return FakeWorkers().size() == 1; })) << ContentOf(directory_ / "log");
  kill(pid, SIGTERM);
  EXPECT_EQ(Wait(pid), 0);
  EXPECT_NE(kill(FakeWorkers().front(), 0), 0);
  EXPECT_FALSE(fs::exists(directory_ / "state" / "run"));
}

TEST_F(CoordinatorProcess, StartsWhereAKilledOneWas) {
  const pid_t pid = Start(Flags());
  Port();
  kill(pid, SIGKILL);
  EXPECT_EQ(Wait(pid), -SIGKILL);
  EXPECT_TRUE(fs::exists(directory_ / "state" / "run" / "coordinator"));
  fs::remove(directory_ / "port");
  const pid_t second = Start(Flags());
  Port();
  kill(second, SIGTERM);
  EXPECT_EQ(Wait(second), 0);
  EXPECT_FALSE(fs::exists(directory_ / "state" / "run"));
}

// Its state directory is too long for the path of a socket.
TEST_F(CoordinatorProcess, TakesALongStateDirectory) {
  setenv("TMPDIR", directory_.c_str(), 1);
  const pid_t pid = Start({"--listen", "127.0.0.1:0", "--port-file", (directory_ / "port").string(), "--state-dir",
                           (directory_ / std::string(100, 's')).string()});
  unsetenv("TMPDIR");
  Port();
  kill(pid, SIGTERM);
  EXPECT_EQ(Wait(pid), 0);
  for (const auto& entry : fs::directory_iterator(directory_)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("jacserve-")) << entry.path();
  }
}

std::string HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string response;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
    EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
    char buffer[4096];
    for (ssize_t got = 0; (got = read(fd, buffer, sizeof(buffer))) > 0;)
      response.append(buffer, static_cast<size_t>(got));
  }
  close(fd);
  const size_t body = response.find("\r\n\r\n");
  return body == std::string::npos ? "" : response.substr(body + 4);
}

TEST_F(CoordinatorProcess, MetricsFollowPrometheusRules) {
  Start(Flags({"--metrics-listen", "127.0.0.1:0"}));
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(v1::JacobianService::NewStub(Channel())->GetServerInfo(&context, {}, &info).ok());
  const std::string log = ContentOf(directory_ / "log");
  const std::string marker = "serving metrics on port ";
  ASSERT_THAT(log, HasSubstr(marker));
  const int port = std::atoi(log.c_str() + log.find(marker) + marker.size());
  ASSERT_TRUE(WaitFor([&] { return HttpGet(port, "/metrics").find("jacserve_store_bytes") != std::string::npos; }));
  const std::string metrics = HttpGet(port, "/metrics");
  for (const char* name :
       {"jacserve_jobs{state=\"queued\"}", "jacserve_jobs{state=\"running\"}", "jacserve_shards_waiting",
        "jacserve_workers{state=\"ready\"}", "jacserve_store_bytes", "jacserve_store_quota_bytes",
        "jacserve_shard_duration_seconds_count", "jacserve_jobs_ended_total{result=\"failed\"} 0",
        "jacserve_rows_delivered_total 0", "jacserve_relayed_bytes_total 0", "jacserve_chunk_latency_seconds_count 0",
        "jacserve_shard_retries_total 0", "jacserve_rpcs_total{code=\"OK\",method=\"GetServerInfo\"} 1"}) {
    EXPECT_THAT(metrics, HasSubstr(name));
  }
  ASSERT_EQ(system("command -v promtool > /dev/null"), 0) << "promtool comes with the prometheus package";
  std::ofstream file(directory_ / "metrics");  // without the exposer's own
  for (absl::string_view line : absl::StrSplit(metrics, '\n')) {
    if (absl::StrContains(line, "jacserve_")) file << line << "\n";
  }
  file.close();
  const std::string lint = "promtool check metrics < " + (directory_ / "metrics").string() + " > " +
                           (directory_ / "lint").string() + " 2>&1";
  EXPECT_EQ(system(lint.c_str()), 0) << ContentOf(directory_ / "lint");
}

}  // namespace
}  // namespace jacserve::server
