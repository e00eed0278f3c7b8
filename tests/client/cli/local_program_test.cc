// `jacserve --local`: a private coordinator, started, quoted when it dies, and never left behind.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/client/cli/program_rig.h"

namespace jacserve::client {
namespace {

using testing::HasSubstr;
using testing::Not;

// A stand-in for the coordinator, found beside a copy of the program: a shell script.
class LocalProgramTest : public ProgramTest {
 protected:
  std::string Install(const std::string& script) const {
    const std::string bin = folder_ + "/bin";
    fs::create_directories(bin);
    fs::create_directories(folder_ + "/tmp");
    fs::copy_file(Program(), bin + "/jacserve", fs::copy_options::overwrite_existing);
    WriteText(bin + "/jacserve-coordinator", Cat("#!/bin/sh\n", script));
    fs::permissions(bin + "/jacserve-coordinator", fs::perms::owner_all);
    return bin + "/jacserve";
  }

  // Notes its arguments and process, then points to a scripted service and stays.
  std::string StayingScript(const ScriptedService& service) const {
    return Cat("echo \"$@\" > ", folder_, "/arguments\necho $$ > ", folder_, "/pid\n", "mkdir \"$TMPDIR/left\"\n",
               "while [ \"$1\" != --port-file ]; do shift; done\n", "echo ", service.port(),
               " > \"$2.part\" && mv \"$2.part\" \"$2\"\n", "exec sleep 1000\n");
  }

  Process Start(const std::string& program, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = Jacobian("", more);
    return Process(program, arguments, folder_, {Cat("TMPDIR=", folder_, "/tmp")});
  }

  // The coordinator is gone, and so is the temporary folder.
  void ExpectNothingLeft(bool temporary_files = true) const {
    const pid_t pid = std::stoi(ReadText(folder_ + "/pid"));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (::kill(pid, 0) == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_NE(::kill(pid, 0), 0) << "the coordinator was left behind";
    if (!temporary_files) return;
    EXPECT_TRUE(fs::is_empty(folder_ + "/tmp"));
  }
};

TEST_F(LocalProgramTest, StartsAPrivateCoordinatorAndEndsIt) {
  const ScriptedService service;
  const Ended ended =
      Start(Install(StayingScript(service)), {"--local", "2", "--memory-budget", "512MiB", "--out", folder_ + "/out"})
          .Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ReadText(folder_ + "/arguments"), HasSubstr("--listen 127.0.0.1:0"));
  EXPECT_THAT(ReadText(folder_ + "/arguments"), HasSubstr("--local-workers 2 --device auto"));
  EXPECT_THAT(ReadText(folder_ + "/arguments"), HasSubstr("--worker-memory-budget 512MiB"));
  EXPECT_TRUE(fs::exists(folder_ + "/out/index.json"));
  ExpectNothingLeft();
}

TEST_F(LocalProgramTest, ACoordinatorThatDiesEarlyIsQuoted) {
  const Ended ended =
      Start(Install("echo first; echo the port is taken >&2\nexit 1\n"), {"--local", "1", "--json"}).Wait();
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("the port is taken"));
  EXPECT_EQ(ended.Json()["error"]["code"], "UNAVAILABLE");
  EXPECT_TRUE(fs::is_empty(folder_ + "/tmp"));
}

ScriptedService::Stream Stall(std::atomic<bool>& reached) {
  return [&](grpc::ServerContext& context, const v1::ComputeJacobianRequest&, EventWriter& writer) {
    writer.Write(HeaderEvent(TheLayout()));
    reached = true;
    while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return grpc::Status::CANCELLED;
  };
}

void WaitFor(const std::atomic<bool>& reached) {
  while (!reached) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_F(LocalProgramTest, ACoordinatorThatDiesInTheMiddleIsQuoted) {
  std::atomic<bool> reached = false;
  const ScriptedService service(TheLayout(), {Stall(reached)});
  const Process process = Start(Install(Cat("echo last words >&2\n", StayingScript(service))), {"--local", "1"});
  WaitFor(reached);
  ::kill(std::stoi(ReadText(folder_ + "/pid")), SIGKILL);
  const Ended ended = process.Wait();
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("last words"));
  ExpectNothingLeft();
}

TEST_F(LocalProgramTest, CtrlCLeavesNothingBehind) {
  for (int number : {SIGINT, SIGTERM}) {
    std::atomic<bool> reached = false;
    const ScriptedService service(TheLayout(), {Stall(reached)});
    const Process process = Start(Install(StayingScript(service)), {"--local", "1"});
    WaitFor(reached);
    process.Signal(number);
    EXPECT_EQ(process.Wait().code, 130);
    ExpectNothingLeft();
  }
}

TEST_F(LocalProgramTest, TheCoordinatorDiesWithAKilledClient) {
  std::atomic<bool> reached = false;
  const ScriptedService service(TheLayout(), {Stall(reached)});
  const Process process = Start(Install(StayingScript(service)), {"--local", "1"});
  WaitFor(reached);
  process.Signal(SIGKILL);
  EXPECT_EQ(process.Wait().code, 128 + SIGKILL);
  ExpectNothingLeft(/*temporary_files=*/false);
}

TEST_F(LocalProgramTest, ACoordinatorThatIsNowhereIsMissedInWords) {
  const std::string program = Install("");
  fs::remove(folder_ + "/bin/jacserve-coordinator");
  const Ended ended =
      Process(program, Jacobian(""), folder_, {"PATH=/nowhere", "JACSERVE_BIN=", "JACSERVE_SERVER="}).Wait();
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("jacserve-coordinator was found neither"));
  EXPECT_THAT(ended.err, Not(HasSubstr("\n\n")));
}

}  // namespace
}  // namespace jacserve::client
