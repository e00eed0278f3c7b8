// One engine at a time, made once for a job, within the budget.
#include "worker/service/shard_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "common/budget_status.h"
#include "tests/worker/service/tiny_engine.h"

namespace jacserve::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Rows : public RowConsumer {
 public:
  absl::Status OnSlab(const Slab& slab) override {
    bytes.append(reinterpret_cast<const char*>(slab.bytes.data()), slab.bytes.size());
    return absl::OkStatus();
  }
  absl::Status OnRowsDone(RowRange rows) override {
    done.Add(rows);
    return absl::OkStatus();
  }
  std::string bytes;
  RowSet done;
};

bool Never() { return false; }

class ShardRunnerTest : public testing::Test {
 protected:
  FetchBlob Fetch() {
    return [this](const std::string& sha256, int64_t limit_bytes) -> absl::StatusOr<std::vector<std::byte>> {
      const std::string& blob = sha256 == request_.spec.graph_sha256() ? request_.graph : request_.x;
      if (static_cast<int64_t>(blob.size()) > limit_bytes) return absl::ResourceExhaustedError("too large");
      return BytesOf(blob);
    };
  }

  RunnerOptions options_{.memory_budget_bytes = 1 << 20, .threads = 3};
  TinyRequest request_;
  TinyScript script_;
  BlobCache blobs_{Fetch(), BlobCacheShare(options_.memory_budget_bytes)};
  ShardRunner runner_{options_, blobs_, TinyFactory(script_), TinyReporter()};
};

TEST_F(ShardRunnerTest, PrepareGivesHeaderAndValue) {
  absl::StatusOr<PreparedJob> job = runner_.Prepare(request_.spec);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->header.target_shape(), ElementsAre(40));
  EXPECT_EQ(job->header.value_dtype(), v1::DATA_TYPE_FLOAT32);
  ASSERT_EQ(job->header.blocks_size(), 2);
  EXPECT_EQ(job->header.blocks(0).name(), "W");
  EXPECT_THAT(job->header.blocks(0).shape(), ElementsAre(1000));
  EXPECT_EQ(job->header.blocks(0).status(), v1::BLOCK_STATUS_CONNECTED);
  EXPECT_EQ(job->header.blocks(1).status(), v1::BLOCK_STATUS_UNCONNECTED);
  EXPECT_EQ(job->header.rows().count(), 40);
  EXPECT_EQ(job->header.precision(), v1::PRECISION_FP32);
  EXPECT_EQ(job->header.encoding(), v1::ENCODING_DENSE);
  EXPECT_EQ(job->header.backend(), "cpu");
  EXPECT_FALSE(job->header.device().empty());
  EXPECT_EQ(job->header.row_tile(), 4);
  EXPECT_EQ(job->header.flops_per_row(), 12);
  EXPECT_EQ(job->value.size(), 160u);
}

TEST_F(ShardRunnerTest, ShardsOfOneJobShareAnEngine) {
  ASSERT_TRUE(runner_.Prepare(request_.spec).ok());
  Rows rows;
  for (const RowRange shard : {RowRange{0, 15}, RowRange{15, 20}, RowRange{35, 5}}) {
    ASSERT_TRUE(runner_.Compute(request_.spec, shard, rows, Never).ok());
  }
  EXPECT_EQ(rows.done.Ranges(), (std::vector<RowRange>{{0, 40}}));
  EXPECT_TRUE(rows.bytes == TinyRows(script_, {0, 40}));
  EXPECT_EQ(script_.created, 1);

  v1::JacobianSpec other = request_.spec;
  other.set_precision(v1::PRECISION_FP64);
  absl::StatusOr<PreparedJob> job = runner_.Prepare(other);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(script_.created, 2);
  EXPECT_EQ(job->header.backend(), "cpu");
  EXPECT_EQ(script_.last_options.backend, BackendKind::kCpu);
}

class KeptEnginesTest : public ShardRunnerTest {
 protected:
  // A request of its own for each letter.
  bool Prepare(char letter) {
    v1::JacobianSpec spec = request_.spec;
    spec.mutable_target()->set_output(std::string(1, letter));
    return runner_.Prepare(spec).ok();
  }
  const int64_t budget_ = options_.memory_budget_bytes - BlobCacheShare(options_.memory_budget_bytes);
};

TEST_F(KeptEnginesTest, RequestThatComesAgainHasItsEngine) {
  for (const char letter : {'a', 'b', 'c', 'a', 'b', 'c', 'b'}) ASSERT_TRUE(Prepare(letter));
  EXPECT_EQ(script_.created, 3);
  EXPECT_EQ(script_.alive, 3);
}

TEST_F(KeptEnginesTest, LatestUsedAreKeptWithinTheirShare) {
  script_.engine_bytes = KeptEnginesShare(budget_) / 3;  // two are kept: each has its graph and tensors besides
  for (const char letter : {'a', 'b', 'a', 'c', 'd'}) ASSERT_TRUE(Prepare(letter));
  EXPECT_EQ(script_.alive, 3);
  EXPECT_TRUE(Prepare('a'));
  EXPECT_TRUE(Prepare('c'));
  EXPECT_EQ(script_.created, 4);
  EXPECT_TRUE(Prepare('b'));
  EXPECT_EQ(script_.created, 5) << "it was the one unused for longest";
}

TEST_F(KeptEnginesTest, LargeEnginesGoAtOnce) {
  script_.engine_bytes = KeptEnginesShare(budget_) + 1;
  ASSERT_TRUE(Prepare('a'));
  ASSERT_TRUE(Prepare('b'));
  EXPECT_EQ(script_.alive, 1);
}

TEST_F(KeptEnginesTest, OthersAreGoneBeforeAnEngineNeedsTheirMemory) {
  ASSERT_TRUE(Prepare('a'));
  ASSERT_TRUE(Prepare('b'));
  ASSERT_EQ(script_.alive, 2);
  script_.engine_bytes = budget_ - static_cast<int64_t>(request_.graph.size() + request_.x.size());
  ASSERT_TRUE(Prepare('c'));
  EXPECT_EQ(script_.alive, 1);
  EXPECT_EQ(script_.last_options.memory_budget_bytes, script_.engine_bytes) << "as if none had been kept";
}

TEST_F(ShardRunnerTest, EngineHasTheBudgetThatBlobsLeave) {
  ASSERT_TRUE(runner_.Prepare(request_.spec).ok());
  EXPECT_EQ(script_.last_options.memory_budget_bytes,
            (1 << 20) - (1 << 17) - static_cast<int64_t>(request_.graph.size() + request_.x.size()));
  EXPECT_EQ(script_.last_options.threads, 3);
}

TEST_F(ShardRunnerTest, PhasesAreThoseSinceTheLastShard) {
  ASSERT_TRUE(runner_.Prepare(request_.spec).ok());
  Rows rows;
  absl::StatusOr<Effort> first = runner_.Compute(request_.spec, {0, 10}, rows, Never);
  absl::StatusOr<Effort> second = runner_.Compute(request_.spec, {10, 4}, rows, Never);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->linearize, 1);
  EXPECT_EQ(first->rows, 10);
  EXPECT_EQ(second->linearize, 0);
  EXPECT_EQ(second->rows, 4);
}

TEST_F(ShardRunnerTest, ErrorsOfTheEngineAreTheCallers) {
  Rows rows;
  EXPECT_EQ(runner_.Compute(request_.spec, {38, 3}, rows, Never).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(runner_.Compute(request_.spec, {0, 3}, rows, [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
  script_.value_status = absl::InvalidArgumentError("NaN");
  EXPECT_EQ(runner_.Prepare(request_.spec).status().message(), "NaN");

  request_.spec.mutable_wrt()->add_parameters("V");
  EXPECT_EQ(script_.alive, 0) << "an engine that failed is not used again";
  script_.create_status = absl::UnimplementedError("Loop");
  EXPECT_EQ(runner_.Prepare(request_.spec).status(), absl::UnimplementedError("Loop"));
  script_.create_status = absl::OkStatus();
  script_.value_status = absl::OkStatus();
  EXPECT_TRUE(runner_.Prepare(request_.spec).ok());
}

TEST_F(ShardRunnerTest, BudgetThatIsNamedLeavesTheEngineWhatItNeeds) {
  constexpr int64_t kNeeded = 5'000'003;
  script_.create_status = BudgetTooSmall(1 << 19, kNeeded);
  const absl::Status status = runner_.Prepare(request_.spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a memory budget of 1.0 MiB"));
  const std::optional<int64_t> named = SmallestBudgetOf(status);
  ASSERT_TRUE(named.has_value());
  const int64_t host_bytes = static_cast<int64_t>(request_.graph.size() + request_.x.size());
  EXPECT_GE(*named - BlobCacheShare(*named) - host_bytes, kNeeded);
  EXPECT_LE(*named, 2 * kNeeded);
}

TEST_F(ShardRunnerTest, GpuEngineHasTheGpusBudget) {
  options_.backend = BackendKind::kCuda;
  options_.device.name = "NVIDIA H200";
  options_.gpu_budget_bytes = int64_t{7} << 30;
  ShardRunner runner(options_, blobs_, TinyFactory(script_), TinyReporter());
  const absl::StatusOr<PreparedJob> job = runner.Prepare(request_.spec);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(script_.last_options.memory_budget_bytes, int64_t{7} << 30);
  EXPECT_EQ(job->header.backend(), "cuda");
  EXPECT_EQ(job->header.device(), "NVIDIA H200");
  script_.create_status = BudgetTooSmall(int64_t{7} << 30, int64_t{9} << 30);
  request_.spec.set_precision(v1::PRECISION_FP64);
  EXPECT_EQ(SmallestBudgetOf(runner.Prepare(request_.spec).status()), int64_t{9} << 30) << "of the GPU, not the host";
}

TEST_F(ShardRunnerTest, IdleEngineIsReleasedAndMadeAgain) {
  std::atomic<int> released = 0;
  options_.idle_release = std::chrono::milliseconds(1);
  options_.on_idle = [&] { ++released; };
  ShardRunner runner(options_, blobs_, TinyFactory(script_), TinyReporter());
  for (int round = 1; round <= 2; ++round) {
    // The watch may hold the runner for a moment.
    while (!runner.Prepare(request_.spec).ok()) std::this_thread::yield();
    while (released < round) std::this_thread::yield();
    EXPECT_EQ(script_.alive, 0);
    EXPECT_EQ(script_.created, round);
  }
}

TEST_F(ShardRunnerTest, LostDeviceIsToldAndItsEngineGoes) {
  absl::Status lost;
  options_.on_device_lost = [&](const absl::Status& why) { lost = why; };
  ShardRunner runner(options_, blobs_, TinyFactory(script_), TinyReporter());
  script_.value_status = absl::InvalidArgumentError("NaN");
  EXPECT_FALSE(runner.Prepare(request_.spec).ok());
  EXPECT_TRUE(lost.ok()) << "other errors are the request's";
  script_.value_status = DeviceLost("the GPU failed");
  EXPECT_EQ(runner.Prepare(request_.spec).status(), script_.value_status);
  EXPECT_EQ(lost, script_.value_status);
  EXPECT_EQ(script_.alive, 0);
}

TEST_F(ShardRunnerTest, SecondCallIsToldBusy) {
  std::promise<void> inside, go_on;
  std::atomic<int> asked = 0;
  std::thread first([&] {
    Rows rows;
    EXPECT_TRUE(runner_
                    .Compute(request_.spec, {0, 40}, rows,
                             [&] {
                               if (asked++ == 0) {
                                 inside.set_value();
                                 go_on.get_future().wait();
                               }
                               return false;
                             })
                    .ok());
  });
  inside.get_future().wait();
  EXPECT_EQ(runner_.Prepare(request_.spec).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(runner_.Describe(request_.spec.graph_sha256()).ok());  // a small graph is described all the same
  go_on.set_value();
  first.join();
  EXPECT_TRUE(runner_.Prepare(request_.spec).ok());
}

TEST_F(ShardRunnerTest, LargeGraphTakesTheEnginesPlace) {
  onnx::ModelProto model = SmallModel();
  model.set_doc_string(std::string(100'000, 'd'));  // over a quarter of the cache
  TinyRequest small;
  ASSERT_TRUE(runner_.Prepare(request_.spec).ok());
  request_.graph = model.SerializeAsString();
  request_.spec.set_graph_sha256(Sha256Of(std::as_bytes(std::span(request_.graph))));
  absl::StatusOr<v1::ModelDescription> description = runner_.Describe(request_.spec.graph_sha256());
  ASSERT_TRUE(description.ok()) << description.status();
  EXPECT_EQ(description->operators_size(), 2);
  EXPECT_EQ(script_.alive, 0);

  request_.graph.assign((1 << 19) + 1, 'x');  // over half the budget
  request_.spec.set_graph_sha256(Sha256Of(std::as_bytes(std::span(request_.graph))));
  EXPECT_EQ(runner_.Describe(request_.spec.graph_sha256()).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace jacserve::worker
