// The program jacserve-worker as a coordinator starts it: real engine, real signals, real metrics.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "common/chunk_codec.h"
#include "common/proto_convert.h"
#include "tests/worker/service/scripted_registry.h"
#include "tests/worker/service/tiny_engine.h"

namespace jacserve::worker {
namespace {

using State = ScriptedRegistry::State;
using testing::HasSubstr;

std::string Program() { return std::string(std::getenv("JACSERVE_BIN")) + "/jacserve-worker"; }

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A started program, whose output goes to a file; killed when the test is done with it.
class Process {
 public:
  Process(const std::string& program, std::vector<std::string> arguments) {
    static int count = 0;
    output_path_ = testing::TempDir() + "worker-process-" + std::to_string(getpid()) + "-" + std::to_string(++count);
    std::vector<char*> argv = {const_cast<char*>(program.c_str())};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    const int output = open(output_path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
    std::filesystem::remove(output_path_);
  }

  void Signal(int signal) { kill(pid_, signal); }

  // The exit code, or minus the signal.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  pid_t pid() const { return pid_; }
  std::string Output() const { return ReadFile(output_path_); }

 private:
  std::string output_path_;
  pid_t pid_ = 0;
};

class WorkerProcessTest : public testing::Test {
 protected:
  Process Start(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {
        "--coordinator", registry_.address(), "--listen", "127.0.0.1:0", "--id", "p1", "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Process(Program(), arguments);
  }

  std::unique_ptr<v1::WorkerService::Stub> Stub() { return v1::WorkerService::NewStub(registry_.WorkerChannel()); }

  ScriptedRegistry registry_;
};

TEST_F(WorkerProcessTest, VersionAndMistakesExitAtOnce) {
  Process version(Program(), {"--version"});
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_THAT(version.Output(), HasSubstr(std::string("jacserve-worker ") + JACSERVE_VERSION));
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{}, "--coordinator"},
      {{"--coordinator", "localhost:1", "--memory-budget", "much"}, "not a size"},
      {{"--coordinator", "localhost:1", "--cpus", "a"}, "list of cores"},
      {{"--coordinator", "localhost:1", "--cpus", "1000"}, "cores"},
      {{"--coordinator", "localhost:1", "--device", "gpu"}, "--device"},
      {{"--coordinator", "localhost:1", "--threads", "0"}, "--threads"},
      {{"--coordinator", "localhost:1", "--log-level", "loud"}, "log level"},
      {{"--coordinator", "localhost:1", "--listen", "nowhere"}, "HOST:PORT"},
  };
  for (const auto& [arguments, words] : mistakes) {
    Process process(Program(), arguments);
    EXPECT_NE(process.Wait(), 0) << words;
    EXPECT_THAT(process.Output(), HasSubstr(words));
  }
}

TEST_F(WorkerProcessTest, SigtermLeavesAndExitsWithZero) {
  Process process = Start();
  ASSERT_NE(registry_.WorkerAddress(), "");
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0) << process.Output();
  registry_.With([](State& state) { EXPECT_EQ(state.leaves, 1); });
}

TEST_F(WorkerProcessTest, EndsWhenTheCoordinatorAsksOrRefuses) {
  registry_.With([](State& state) { state.ask_to_drain = true; });
  Process asked = Start();
  EXPECT_EQ(asked.Wait(), 0) << asked.Output();
  registry_.With([](State& state) {
    state.register_status = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "another version");
  });
  Process refused = Start();
  EXPECT_NE(refused.Wait(), 0);
  EXPECT_THAT(refused.Output(), HasSubstr("another version"));
}

TEST_F(WorkerProcessTest, EndsWhenTheCoordinatorStaysAway) {
  Process process(Program(), {"--coordinator", "127.0.0.1:1", "--coordinator-timeout", "0.2"});
  EXPECT_NE(process.Wait(), 0);
  EXPECT_THAT(process.Output(), HasSubstr("gone for too long"));
}

// A process between this one and the worker, which dies: the worker must follow.
TEST_F(WorkerProcessTest, DiesWithItsParent) {
  int pipe_ends[2];  // the worker inherits the writing end, so the reading end closes with its death
  ASSERT_EQ(pipe(pipe_ends), 0);
  const std::string program = Program();
  const std::string coordinator = registry_.address();
  const pid_t parent = fork();
  if (parent == 0) {
    if (fork() == 0) {
      execl(program.c_str(), program.c_str(), "--coordinator", coordinator.c_str(), "--die-with-parent", nullptr);
      _exit(127);
    }
    pause();
    _exit(0);
  }
  close(pipe_ends[1]);
  EXPECT_NE(registry_.WorkerAddress(), "");
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  char byte = 0;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);
  close(pipe_ends[0]);
}

TEST_F(WorkerProcessTest, RunsOnTheCoresThatItWasGiven) {
  Process process = Start({"--cpus", "0"});
  ASSERT_NE(registry_.WorkerAddress(), "");
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(process.pid()) + "/task")) {
    EXPECT_THAT(ReadFile(task.path() / "status"), HasSubstr("Cpus_allowed_list:\t0\n"));
  }
}

// A golden case as a coordinator would ask for it.
class GoldenWorkerTest : public WorkerProcessTest {
 protected:
  GoldenWorkerTest() {
    graph_ = ReadFile(std::filesystem::path(std::getenv("JACSERVE_GOLDEN")) / "plain_onnx_initializers/graph.onnx");
    registry_.Hold(graph_);
    registry_.Hold(x_);
    spec_.set_graph_sha256(Sha256Of(std::as_bytes(std::span(graph_))));
    v1::NamedTensor& input = *spec_.add_inputs();
    input.set_name("x");
    input.mutable_tensor()->set_dtype(v1::DATA_TYPE_FLOAT32);
    input.mutable_tensor()->add_shape(5);
    input.mutable_tensor()->add_shape(4);
    input.mutable_tensor()->set_sha256(Sha256Of(std::as_bytes(std::span(x_))));
  }

  static std::string SomeNumbers(int count) {
    std::vector<float> numbers;
    for (int i = 0; i < count; ++i) numbers.push_back(static_cast<float>(i % 7) / 4 - 1);
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
  }

  // Blocks of all rows, by name, as they were put together from chunks.
  std::map<std::string, std::vector<float>> Rows(v1::WorkerService::Stub& stub, int64_t rows_per_shard) {
    grpc::ClientContext prepare_context;
    v1::PrepareRequest prepare;
    *prepare.mutable_spec() = spec_;
    auto prepared = stub.Prepare(&prepare_context, prepare);
    v1::JacobianEvent event;
    EXPECT_TRUE(prepared->Read(&event));
    const v1::JacobianHeader header = event.header();
    while (prepared->Read(&event)) continue;
    const grpc::Status status = prepared->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::map<std::string, std::vector<float>> blocks;
    for (int64_t begin = 0; begin < header.rows().count(); begin += rows_per_shard) {
      const RowRange rows{begin, std::min(rows_per_shard, header.rows().count() - begin)};
      ReadShard(stub, header, rows, blocks);
    }
    return blocks;
  }

  void ReadShard(v1::WorkerService::Stub& stub, const v1::JacobianHeader& header, RowRange rows,
                 std::map<std::string, std::vector<float>>& blocks) {
    grpc::ClientContext context;
    v1::ComputeShardRequest request;
    *request.mutable_spec() = spec_;
    *request.mutable_rows() = ToProto(rows);
    auto reader = stub.ComputeShard(&context, request);
    for (v1::JacobianEvent event; reader->Read(&event);) {
      if (!event.has_chunk()) continue;
      const v1::Block& block = header.blocks(static_cast<int>(event.chunk().block()));
      const int64_t columns = Elements({block.shape().data(), static_cast<size_t>(block.shape_size())});
      std::vector<float>& numbers = blocks[block.name()];
      numbers.resize(header.rows().count() * columns);
      std::memcpy(
          reinterpret_cast<char*>(numbers.data() + event.chunk().row_begin() * columns) + event.chunk().byte_offset(),
          event.chunk().data().data(), event.chunk().data().size());
    }
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  std::string graph_;
  const std::string x_ = SomeNumbers(20);
  v1::JacobianSpec spec_;
};

TEST_F(GoldenWorkerTest, BackendsAgreeAndShardingDoesNotMatter) {
  std::map<std::string, std::vector<float>> results[3];
  for (int run = 0; run < 3; ++run) {
    Process process = Start({"--device", run == 2 ? "reference" : "cpu", "--memory-budget", "64MiB"});
    const auto stub = Stub();
    results[run] = Rows(*stub, run == 0 ? 1'000 : 4);
    process.Signal(SIGTERM);
    EXPECT_EQ(process.Wait(), 0) << process.Output();
    registry_.With([](State& state) { state.registrations.clear(); });
  }
  ASSERT_EQ(results[0].size(), 4u);  // two layers of weight and bias
  EXPECT_TRUE(results[0] == results[1]);
  for (const auto& [name, numbers] : results[0]) {
    ASSERT_EQ(results[2][name].size(), numbers.size()) << name;
    for (size_t i = 0; i < numbers.size(); ++i) ASSERT_NEAR(numbers[i], results[2][name][i], 1e-5) << name << " " << i;
  }
}

TEST_F(GoldenWorkerTest, DescribesTheGraph) {
  Process process = Start();
  grpc::ClientContext context;
  v1::DescribeModelRequest request;
  request.set_graph_sha256(spec_.graph_sha256());
  v1::ModelDescription description;
  const grpc::Status status = Stub()->DescribeModel(&context, request, &description);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(description.inputs_size(), 1);
  EXPECT_EQ(description.parameters_size(), 4);
  EXPECT_TRUE(description.samples_independent());
  for (const v1::OperatorCount& op : description.operators()) EXPECT_TRUE(op.supported()) << op.op_type();
}

TEST_F(GoldenWorkerTest, MetricsAreNamedAsPrometheusWants) {
  Process process = Start({"--metrics-listen", "127.0.0.1:0"});
  Rows(*Stub(), 1'000);
  const std::string log = process.Output();
  const size_t place = log.find("serving metrics on port ");
  ASSERT_NE(place, std::string::npos) << log;
  const std::string port = std::to_string(std::atoi(log.c_str() + place + 24));
  const std::string scraped = testing::TempDir() + "worker-metrics-" + port;
  const std::string fetch =
      "python3 -c \"import urllib.request;print(urllib.request.urlopen('http://127.0.0.1:" + port +
      "/metrics').read().decode(),end='')\" > " + scraped;
  ASSERT_EQ(std::system(fetch.c_str()), 0);
  const std::string text = ReadFile(scraped);
  for (const char* name :
       {"jacserve_worker_rows_total", "jacserve_worker_payload_bytes_total", "jacserve_worker_shard_duration_seconds",
        "jacserve_worker_chunk_send_duration_seconds", "jacserve_worker_memory_budget_bytes",
        "jacserve_worker_resident_memory_bytes", "jacserve_worker_registered 1",
        "jacserve_rpcs_total{code=\"OK\",method=\"ComputeShard\"} 1"}) {
    EXPECT_THAT(text, HasSubstr(name));
  }
  EXPECT_EQ(std::system(("promtool check metrics < " + scraped).c_str()), 0) << text;
  std::filesystem::remove(scraped);
}

}  // namespace
}  // namespace jacserve::worker
