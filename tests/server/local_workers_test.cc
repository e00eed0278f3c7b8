// Local worker processes: started, told what they need, started again, gone at the end.
#include "server/schedule/local_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

namespace jacserve::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class LocalWorkersTest : public testing::Test {
 protected:
  LocalWorkersTest() {
    std::string name = testing::TempDir() + "jacserve-local-XXXXXX";
    directory_ = mkdtemp(name.data());
  }
  ~LocalWorkersTest() override { std::filesystem::remove_all(directory_); }

  // A worker program that runs these shell commands.
  LocalWorkersOptions Program(const std::string& commands) {
    LocalWorkersOptions options;
    options.program = directory_ / "jacserve-worker";
    std::ofstream(options.program) << "#!/bin/sh\n" << commands << "\n";
    chmod(options.program.c_str(), 0700);
    options.count = 1;
    options.device = WorkerDevice::kCpu;
    options.socket_directory = directory_;
    options.coordinator_address = "unix:/run/coordinator";
    options.first_backoff = std::chrono::milliseconds(20);
    return options;
  }

  static bool WaitFor(const std::function<bool()>& condition) {
    for (int i = 0; i < 3000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  static bool Exists(pid_t pid) { return kill(pid, 0) == 0; }

  std::string ContentOf(const std::string& name) const {
    std::ifstream file(directory_ / name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  std::filesystem::path directory_;
};

TEST_F(LocalWorkersTest, AreToldWhatTheyNeed) {
  LocalWorkersOptions options = Program("echo \"$@\" > " + (directory_ / "arguments").string() + "; exec sleep 1000");
  options.memory_budget = "512";
  options.device = WorkerDevice::kReference;
  auto workers = LocalWorkers::Start(options, [](const std::string&) {});
  ASSERT_TRUE(workers.ok()) << workers.status();
  ASSERT_TRUE(WaitFor([&] { return ContentOf("arguments").ends_with("\n"); }));
  const std::string arguments = ContentOf("arguments");
  for (const char* part :
       {"--listen unix:", "/worker-0", "--coordinator unix:/run/coordinator", "--id local-0", "--threads ", "--cpus ",
        "--die-with-parent", "--log-level info", "--memory-budget 512", "--device reference"}) {
    EXPECT_THAT(arguments, HasSubstr(part));
  }
}

// Answers --list-gpus with `gpus`, and otherwise writes what it sees to a file per worker.
std::string GpuProgram(const std::string& gpus, const std::filesystem::path& directory) {
  return "if [ \"$1\" = --list-gpus ]; then " + gpus +
         "; exit; fi\necho \"$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES $@\" > " + directory.string() +
         "/$(basename $2); exec sleep 1000";
}

TEST_F(LocalWorkersTest, SeeOneGpuEach) {
  const std::string list =
      "echo '[{\"uuid\":\"GPU-a\",\"name\":\"A\",\"pci_bus_id\":\"ffff:01:00.0\"},"
      "{\"uuid\":\"GPU-b\",\"name\":\"B\",\"pci_bus_id\":\"../..\"}]'";
  LocalWorkersOptions options = Program(GpuProgram(list, directory_));
  options.count = kAutoWorkers;
  options.device = WorkerDevice::kAuto;
  options.memory_budget = "50%";
  auto workers = LocalWorkers::Start(options, [](const std::string&) {});
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_EQ((*workers)->count(), 2);
  ASSERT_TRUE(WaitFor([&] { return ContentOf("worker-0").ends_with("\n") && ContentOf("worker-1").ends_with("\n"); }));
  EXPECT_THAT(ContentOf("worker-0"), StartsWith("PCI_BUS_ID GPU-a "));
  EXPECT_THAT(ContentOf("worker-1"), StartsWith("PCI_BUS_ID GPU-b "));
  EXPECT_THAT(ContentOf("worker-1"), AllOf(HasSubstr("--device cuda"), HasSubstr("--memory-budget 50%"),
                                           HasSubstr("--cpus "), Not(HasSubstr("--threads"))));
}

TEST_F(LocalWorkersTest, WithoutADriverFallBackToTheCpuOrSayWhatIsMissing) {
  LocalWorkersOptions options = Program(GpuProgram("echo 'jacserve-worker: no driver' >&2; exit 1", directory_));
  options.device = WorkerDevice::kAuto;
  auto workers = LocalWorkers::Start(options, [](const std::string&) {});
  ASSERT_TRUE(workers.ok()) << workers.status();
  ASSERT_TRUE(WaitFor([&] { return ContentOf("worker-0").ends_with("\n"); }));
  EXPECT_THAT(ContentOf("worker-0"), HasSubstr("--device cpu"));
  options.device = WorkerDevice::kCuda;
  const auto none = LocalWorkers::Start(options, [](const std::string&) {});
  EXPECT_TRUE(absl::IsFailedPrecondition(none.status())) << none.status();
  EXPECT_EQ(none.status().message(), "--device cuda: no driver");
}

TEST_F(LocalWorkersTest, ADriverThatHangsDoesNotHoldTheCoordinator) {
  const LocalWorkersOptions options = Program("exec sleep 1000");
  const auto gpus = ListGpus(options.program, std::chrono::milliseconds(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(gpus.status())) << gpus.status();
}

TEST_F(LocalWorkersTest, StartAgainWhenTheyDie) {
  std::mutex mutex;
  std::vector<std::string> ended;
  auto workers = LocalWorkers::Start(Program("exec sleep 1000"), [&](const std::string& id) {
    std::lock_guard lock(mutex);
    ended.push_back(id);
  });
  ASSERT_TRUE(WaitFor([&] { return (*workers)->Pids().size() == 1; }));
  const pid_t first = (*workers)->Pids().front();
  kill(first, SIGKILL);
  ASSERT_TRUE(WaitFor([&] {
    const std::vector<pid_t> pids = (*workers)->Pids();
    return pids.size() == 1 && pids.front() != first;
  }));
  std::lock_guard lock(mutex);
  EXPECT_THAT(ended, ElementsAre("local-0"));
  EXPECT_FALSE(Exists(first));  // reaped
}

TEST_F(LocalWorkersTest, ThatDieAtOnceAreStartedEverMoreSeldom) {
  LocalWorkersOptions options = Program("echo x >> " + (directory_ / "starts").string() + "; exit 3");
  options.first_backoff = std::chrono::milliseconds(40);
  std::atomic<int> ended = 0;
  const auto begin = std::chrono::steady_clock::now();
  auto workers = LocalWorkers::Start(options, [&](const std::string&) { ++ended; });
  ASSERT_TRUE(WaitFor([&] { return ended >= 4; }));
  // The back-off before the fourth start: 40 + 80 + 160 ms at least.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(280));
}

TEST_F(LocalWorkersTest, ThatDiedOfTheirWorkStartAgainAsSoonAsEver) {
  LocalWorkersOptions options = Program("exit 3");
  options.first_backoff = std::chrono::milliseconds(20);
  options.last_backoff = std::chrono::seconds(1000);
  std::atomic<int> ended = 0;
  const auto begin = std::chrono::steady_clock::now();
  options.had_work = [&](const std::string& id, std::chrono::steady_clock::time_point since) {
    EXPECT_EQ(id, "local-0");
    EXPECT_GE(since, begin);
    return true;
  };
  auto workers = LocalWorkers::Start(options, [&](const std::string&) { ++ended; });
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_TRUE(WaitFor([&] { return ended >= 12; }));  // doubled each time, the last back-off were of 20 s
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

TEST_F(LocalWorkersTest, AreGoneAtTheEnd) {
  auto workers = LocalWorkers::Start(Program("exec sleep 1000"), [](const std::string&) {});
  ASSERT_TRUE(WaitFor([&] { return (*workers)->Pids().size() == 1; }));
  const pid_t pid = (*workers)->Pids().front();
  workers->reset();
  EXPECT_FALSE(Exists(pid));
}

TEST_F(LocalWorkersTest, ThatIgnoreSigtermAreKilled) {
  LocalWorkersOptions options =
      Program("trap '' TERM; touch " + (directory_ / "deaf").string() + "; while :; do sleep 0.1; done");
  options.stop_time = std::chrono::milliseconds(100);
  auto workers = LocalWorkers::Start(options, [](const std::string&) {});
  ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(directory_ / "deaf"); }));
  const pid_t pid = (*workers)->Pids().front();
  workers->reset();
  EXPECT_FALSE(Exists(pid));
}

TEST_F(LocalWorkersTest, MissingProgramIsNamed) {
  LocalWorkersOptions options = Program("");
  std::filesystem::remove(options.program);
  const auto workers = LocalWorkers::Start(options, [](const std::string&) {});
  EXPECT_TRUE(absl::IsNotFound(workers.status()));
  EXPECT_THAT(workers.status().message(), HasSubstr("jacserve-worker"));
}

}  // namespace
}  // namespace jacserve::server
