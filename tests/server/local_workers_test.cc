// Local worker processes: started, told what they need, started again, gone at the end.
#include "server/schedule/local_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <numeric>
#include <set>
#include <thread>

namespace jacserve::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ShareCores, SharesAreDisjointAndEven) {
  EXPECT_THAT(ShareCores({0, 1}, 2), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(ShareCores({2, 3, 5, 7, 11}, 2), ElementsAre(ElementsAre(2, 3), ElementsAre(5, 7, 11)));
  EXPECT_THAT(ShareCores({4}, 1), ElementsAre(ElementsAre(4)));
  std::vector<int> cores(61);
  std::iota(cores.begin(), cores.end(), 0);
  std::multiset<int> used;
  for (const auto& share : ShareCores(cores, 8)) {
    EXPECT_TRUE(share.size() == 7 || share.size() == 8);
    used.insert(share.begin(), share.end());
  }
  EXPECT_EQ(used, std::multiset<int>(cores.begin(), cores.end()));
}

TEST(ShareCores, MoreWorkersThanCoresStillGetOneEach) {
  for (const auto& share : ShareCores({0, 1}, 5)) EXPECT_EQ(share.size(), 1u);
}

TEST(AutoWorkerCount, OneForEachOneOrTwoCores) {
  const std::vector<std::pair<int, int>> expected = {{1, 1}, {2, 2}, {4, 2}, {8, 4}, {64, 16}};
  for (const auto& [cores, workers] : expected) EXPECT_EQ(AutoWorkerCount(cores), workers) << cores << " cores";
}

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
  options.memory_budget_bytes = 512;
  options.backend = "reference";
  auto workers = LocalWorkers::Start(options, [](const std::string&) {});
  ASSERT_TRUE(workers.ok()) << workers.status();
  ASSERT_TRUE(WaitFor([&] { return ContentOf("arguments").ends_with("\n"); }));
  const std::string arguments = ContentOf("arguments");
  for (const char* part :
       {"--listen unix:", "/worker-0", "--coordinator unix:/run/coordinator", "--id local-0", "--threads ", "--cpus ",
        "--die-with-parent", "--log-level info", "--memory-budget 512", "--backend reference"}) {
    EXPECT_THAT(arguments, HasSubstr(part));
  }
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
