// The program `jacserve` as a user runs it, against a scripted coordinator: output, exit codes, what is left behind.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "client/cpp/text.h"
#include "common/chunk_codec.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/client/scripted_service.h"

namespace jacserve::client {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

const Layout& TheLayout() {
  static const Layout layout = TestLayout();
  return layout;
}

struct Ended {
  int code = -1;  // 128 + signal when killed
  std::string out, err;
  json Json() const {
    const size_t line = out.rfind('\n', out.size() - 2);
    return json::parse(out.substr(line == std::string::npos ? 0 : line + 1), nullptr, false);
  }
};

// One run of a program. Output goes to files in `folder`.
class Process {
 public:
  Process(const std::string& program, std::vector<std::string> arguments, const std::string& folder,
          const std::vector<std::string>& environment = {})
      : folder_(folder) {
    arguments.insert(arguments.begin(), program);
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    for (const std::string& entry : environment) ::putenv(strdup(entry.c_str()));
    if (::freopen((folder + "/stdout").c_str(), "w", stdout) == nullptr) ::_exit(126);
    if (::freopen((folder + "/stderr").c_str(), "w", stderr) == nullptr) ::_exit(126);
    ::execv(words[0], words.data());
    ::_exit(127);
  }

  void Signal(int number) const { ::kill(pid_, number); }

  Ended Wait() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, ReadText(folder_ + "/stdout"), ReadText(folder_ + "/stderr")};
  }

 private:
  std::string folder_;
  pid_t pid_ = -1;
};

std::string Program() { return std::string(std::getenv("JACSERVE_BIN")) + "/jacserve"; }

class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteNpy(folder_ + "/x.npy", MakeArray<float>({2, 4}, std::vector<float>(8, 0.5f))).ok());
    WriteText(folder_ + "/g.onnx", "graph");
  }

  std::vector<std::string> Jacobian(const std::string& server, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"jacobian", folder_ + "/g.onnx", "--input", Cat("x=", folder_, "/x.npy")};
    if (!server.empty()) words.insert(words.end(), {"--server", server});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Ended Run(const std::vector<std::string>& arguments) const { return Process(Program(), arguments, folder_).Wait(); }

  // What a run of the test Jacobian should be compared with.
  std::string Expected(double change) const {
    std::vector<double> value, bias;
    for (int64_t k = 0; k < 6; ++k) value.push_back(TestNumber(-1, k));
    for (int64_t k = 0; k < 18; ++k) bias.push_back(TestNumber(1, k));
    bias[7] += change;
    const std::string path = folder_ + "/expected.npz";
    WriteNpz(path, {{"value", MakeArray<double>({2, 3}, value)}, {"bias", MakeArray<double>({2, 3, 3}, bias)}});
    return path;
  }

  const std::string folder_ = TestFolder();
};

TEST_F(ProgramTest, ComputesIntoAFolderAndReports) {
  const ScriptedService service;
  const Ended ended = Run(Jacobian(service.target(), {"--out", folder_ + "/out", "--json"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  const json report = ended.Json();
  EXPECT_EQ(report["rows"], 6);
  EXPECT_EQ(report["columns"], 2103);
  EXPECT_EQ(report["bytes"], 6 * TheLayout().row_bytes());
  EXPECT_EQ(report["backend"], "reference");
  EXPECT_EQ(report["precision"], "fp32");
  EXPECT_EQ(report["workers"], 1);
  EXPECT_GT(report["seconds"], 0.0);
  EXPECT_TRUE(report["phases"].contains("upload"));
  EXPECT_EQ(report["worker_phases"]["rows"], 0.5);
  ASSERT_THAT(report["processes"], SizeIs(2));
  EXPECT_EQ(report["processes"][0]["role"], "worker");
  EXPECT_EQ(report["processes"][1]["role"], "client");
  EXPECT_GT(report["processes"][1]["peak_rss_bytes"], 0);
  EXPECT_TRUE(report["verification"].is_null());
  const absl::StatusOr<Array> kernel = ReadNpy(folder_ + "/out/kernel.npy");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(BytesOf(*kernel), BlockText(TheLayout(), 0));
}

TEST_F(ProgramTest, PrintsATableForPeople) {
  const ScriptedService service;
  const Ended ended = Run(Jacobian(service.target(), {"--verify", Expected(0)}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("6 rows x 2103 columns"));
  EXPECT_THAT(ended.out, HasSubstr("worst error"));
  EXPECT_THAT(ended.out, HasSubstr("discarded"));
  EXPECT_EQ(ended.err, "") << "no progress bar where there is no terminal";
}

TEST_F(ProgramTest, FailsWhenAFigureIsOff) {
  const ScriptedService service;
  const Ended right = Run(Jacobian(service.target(), {"--verify", Expected(0), "--json"}));
  EXPECT_EQ(right.code, 0) << right.err;
  EXPECT_EQ(right.Json()["verification"]["passed"], true);
  const Ended wrong = Run(Jacobian(service.target(), {"--verify", Expected(0.01), "--json"}));
  EXPECT_EQ(wrong.code, 4);
  EXPECT_EQ(wrong.Json()["verification"]["passed"], false);
  EXPECT_EQ(wrong.Json()["error"]["code"], "VERIFICATION_FAILED");
  EXPECT_THAT(wrong.err, HasSubstr("'bias'"));
}

TEST_F(ProgramTest, RowsAskedForAreTheLeadingAxis) {
  const ScriptedService service;
  const Ended ended =
      Run(Jacobian(service.target(), {"--rows", "2:4", "--out", folder_ + "/out", "--verify", Expected(0)}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const absl::StatusOr<Array> bias = ReadNpy(folder_ + "/out/bias.npy");
  ASSERT_TRUE(bias.ok());
  EXPECT_EQ(bias->shape, (Shape{2, 3}));
  EXPECT_EQ(BytesOf(*bias), NumbersText(DType::kFloat32, 1, 6, 6));
  ASSERT_EQ(service.requests().size(), 1u);
  EXPECT_EQ(RowsOf(service.requests()[0], {}), (std::vector<RowRange>{{2, 2}}));
}

TEST_F(ProgramTest, AFinishedResultIsNeitherRepeatedNorReplacedUnasked) {
  const ScriptedService service;
  const std::vector<std::string> arguments = Jacobian(service.target(), {"--out", folder_ + "/out", "--json"});
  ASSERT_EQ(Run(arguments).code, 0);
  const Ended again = Run(arguments);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.Json()["already_complete"], true);
  EXPECT_EQ(again.Json()["rows"], 6);
  EXPECT_THAT(service.requests(), SizeIs(1));

  std::vector<std::string> other = arguments;
  other.insert(other.end(), {"--rows", "0:2"});
  const Ended refused = Run(other);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--overwrite"));
  EXPECT_THAT(service.requests(), SizeIs(1));
  other.push_back("--overwrite");
  const Ended replaced = Run(other);
  EXPECT_EQ(replaced.code, 0) << replaced.err;
  EXPECT_EQ(ReadNpy(folder_ + "/out/bias.npy")->shape, (Shape{2, 3}));
}

TEST_F(ProgramTest, PassesTheServersNoticesOn) {
  Layout layout = TestLayout();
  layout.notices = {"the graph lacks 1 of the 3 weights"};
  const ScriptedService service(layout);
  const Ended ended = Run(Jacobian(service.target(), {"--json"}));
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "jacserve: note: the graph lacks 1 of the 3 weights\n");
  EXPECT_EQ(ended.Json()["notices"], json(layout.notices));
}

TEST_F(ProgramTest, TellsOfRowsThatAreNotFinite) {
  const auto with_nan = [](grpc::ServerContext&, const v1::ComputeJacobianRequest&, EventWriter& writer) {
    writer.Write(HeaderEvent(TheLayout()));
    writer.Write(ValueEvent(TheLayout()));
    v1::JacobianEvent event = ChunkEvent(TheLayout(), 1, {4, 1}, 0, 12);
    std::memset(event.mutable_chunk()->mutable_data()->data(), 0xff, 4);
    event.mutable_chunk()->set_checksum(Checksum(std::as_bytes(std::span<const char>(event.chunk().data()))));
    writer.Write(event);
    WriteRows(writer, TheLayout(), {0, 6});
    writer.Write(SummaryEvent(6));
    return grpc::Status::OK;
  };
  const ScriptedService service(TheLayout(), {with_nan});
  const Ended ended = Run(Jacobian(service.target(), {"--json"}));
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "jacserve: note: 1 of 6 rows hold NaN or infinity; the first: row 4, block 'bias'\n");
  EXPECT_EQ(ended.Json()["nonfinite_rows"], 1);
  EXPECT_EQ(ended.Json()["first_nonfinite"]["row"], 4);
  EXPECT_EQ(Run(Jacobian(service.target(), {"--json"})).Json()["nonfinite_rows"], 0);
}

TEST_F(ProgramTest, SaysAtOnceThatItWaitsForAServer) {
  const Process process(Program(), {"info", "--server", "127.0.0.1:1"}, folder_);
  const auto start = std::chrono::steady_clock::now();
  while (ReadText(folder_ + "/stderr").empty() && std::chrono::steady_clock::now() - start < std::chrono::seconds(8)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_THAT(ReadText(folder_ + "/stderr"), HasSubstr("waiting up to 10 s for a server at 127.0.0.1:1"));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait().code, 130);
}

TEST_F(ProgramTest, RowsToTheEndAreCountedByTheServer) {
  const ScriptedService service;
  for (const char* rows : {"--rows=4:", "--rows=-2:"}) {
    const std::string out = Cat(folder_, "/out", rows);
    const Ended ended = Run(Jacobian(service.target(), {rows, "--out", out, "--json"}));
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.Json()["row_begin"], 4);
    const absl::StatusOr<Array> bias = ReadNpy(out + "/bias.npy");
    ASSERT_TRUE(bias.ok());
    EXPECT_EQ(BytesOf(*bias), NumbersText(DType::kFloat32, 1, 12, 6));
  }
  const Ended outside = Run(Jacobian(service.target(), {"--rows", "7:", "--out", folder_ + "/outside"}));
  EXPECT_EQ(outside.code, 2);
  EXPECT_THAT(outside.err, HasSubstr("--rows 7: of a target with 6 rows"));
  EXPECT_FALSE(fs::exists(folder_ + "/outside"));
}

TEST_F(ProgramTest, ContinuesARunThatWasInterrupted) {
  const auto stall = [](grpc::ServerContext& context, const v1::ComputeJacobianRequest&, EventWriter& writer) {
    writer.Write(HeaderEvent(TheLayout()));
    writer.Write(ValueEvent(TheLayout()));
    WriteRows(writer, TheLayout(), {1, 3});
    writer.Write(ChunkEvent(TheLayout(), 1, {4, 1}, 0, 12));
    while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return grpc::Status::CANCELLED;
  };
  const ScriptedService service(TheLayout(), {stall});
  const std::vector<std::string> arguments =
      Jacobian(service.target(), {"--out", folder_ + "/out", "--json", "--verify", Expected(0)});
  const Process first(Program(), arguments, folder_);
  const std::string kernel_part = folder_ + "/out/.part/kernel.npy";
  const std::string bias_part = folder_ + "/out/.part/bias.npy";
  // The piece of row 4 follows the report that rows 1 to 3 are done: when it is in the file, the report has been read.
  const std::string row_4 = NumbersText(DType::kFloat32, 1, 12, 3);
  while (ReadText(bias_part).find(row_4) == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  first.Signal(SIGINT);
  const Ended interrupted = first.Wait();
  EXPECT_EQ(interrupted.code, 130) << interrupted.err;
  EXPECT_EQ(interrupted.Json()["error"]["code"], "CANCELLED");
  EXPECT_FALSE(fs::exists(folder_ + "/out/kernel.npy"));
  EXPECT_TRUE(fs::exists(kernel_part));

  const Ended second = Run(arguments);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.Json()["rows_from_earlier_run"], 3);
  EXPECT_EQ(second.Json()["verification"]["passed"], true) << "rows of the earlier run are verified too";
  EXPECT_EQ(RowsOf(service.requests()[1], {}), (std::vector<RowRange>{{0, 1}, {4, 2}}));
  const absl::StatusOr<Array> kernel = ReadNpy(folder_ + "/out/kernel.npy");
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(BytesOf(*kernel), BlockText(TheLayout(), 0));
  EXPECT_FALSE(fs::exists(kernel_part));
}

TEST_F(ProgramTest, ErrorsHaveWordsAndCodes) {
  const auto answer = [](grpc::StatusCode code) {
    return [=](grpc::ServerContext&, const v1::ComputeJacobianRequest&, EventWriter&) {
      return grpc::Status(code, "as the server says");
    };
  };
  const struct {
    grpc::StatusCode code;
    int exit_code;
    const char* name;
  } cases[] = {
      {grpc::StatusCode::INVALID_ARGUMENT, 2, "INVALID_ARGUMENT"},
      {grpc::StatusCode::UNIMPLEMENTED, 2, "UNIMPLEMENTED"},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, 5, "RESOURCE_EXHAUSTED"},
      {grpc::StatusCode::INTERNAL, 1, "INTERNAL"},
  };
  for (const auto& c : cases) {
    const ScriptedService service(TheLayout(), {answer(c.code)});
    const Ended ended = Run(Jacobian(service.target(), {"--json"}));
    EXPECT_EQ(ended.code, c.exit_code);
    EXPECT_EQ(ended.err, "jacserve: as the server says\n");
    EXPECT_EQ(ended.Json()["error"]["code"], c.name);
    EXPECT_EQ(ended.Json()["error"]["message"], "as the server says");
  }
}

TEST_F(ProgramTest, BadFilesAreNamedBeforeAServerIsNeeded) {
  WriteText(folder_ + "/bad.npy", "nonsense");
  const std::string good = Cat("x=", folder_, "/x.npy");
  const struct {
    std::vector<std::string> arguments;
    const char* message;
  } cases[] = {
      {{"jacobian", folder_ + "/none.onnx", "--input", good}, "none.onnx"},
      {{"jacobian", folder_ + "/g.onnx", "--input", Cat("x=", folder_, "/none.npy")}, "none.npy"},
      {{"jacobian", folder_ + "/g.onnx", "--input", Cat("x=", folder_, "/bad.npy")}, "bad.npy"},
      {{"jacobian", folder_ + "/g.onnx", "--input", folder_ + "/x.npy"}, "NAME=FILE"},
      {{"jacobian", folder_ + "/g.onnx", "--input", good, "--weights", folder_ + "/bad.npy"}, ".safetensors"},
      {{"jacobian", folder_ + "/g.onnx", "--input", good, "--verify", folder_ + "/none.npz"}, "--verify"},
      {{"jacobian", folder_ + "/g.onnx", "--input", good, "--wrt-input", "z"}, "'z'"},
      {{"jacobian", folder_ + "/g.onnx", "--input", good, "--wrt-input", "second.x"}, "there is: x"},
      {{"jacobian", folder_ + "/g.onnx", "--input", good, "--out", folder_ + "/bad.npy"}, "--out"},
      {{"describe", folder_ + "/none.onnx"}, "none.onnx"},
  };
  for (const auto& c : cases) {
    std::vector<std::string> arguments = c.arguments;
    arguments.insert(arguments.end(), {"--server", "127.0.0.1:1", "--json"});
    const Ended ended = Run(arguments);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(c.message));
    EXPECT_TRUE(ended.Json().contains("error")) << ended.out;
  }
}

TEST_F(ProgramTest, ShowsModelWorkersAndServer) {
  const ScriptedService service;
  const Ended model = Run({"describe", folder_ + "/g.onnx", "--server", service.target()});
  EXPECT_EQ(model.code, 0) << model.err;
  EXPECT_THAT(model.out, HasSubstr("[batch, 4]"));
  EXPECT_THAT(model.out, HasSubstr("no: Einsum"));
  EXPECT_THAT(model.out, HasSubstr("mixed: node 'mean'"));
  const Ended model_json = Run({"describe", folder_ + "/g.onnx", "--server", service.target(), "--json"});
  EXPECT_EQ(model_json.Json()["unsupported"], json({"Einsum"}));
  EXPECT_THAT(Run({"workers", "--server", service.target()}).out, HasSubstr("ready"));
  EXPECT_EQ(Run({"info", "--server", service.target(), "--json"}).Json()["version"], "1.2.3");
  EXPECT_EQ(Run({"version"}).out, Run({"--version"}).out);
}

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
