// Whole jobs through a real coordinator: what arrives, whatever happens to the workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/cluster/cluster.h"

namespace jacserve::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const MadeUpModel kModel;

TEST(Jobs, HeaderThenValueThenRowsThenSummary) {
  Cluster cluster;
  cluster.AddWorker("a");
  cluster.AddWorker("b");
  const Received received = cluster.Compute(cluster.Request());
  ExpectRows(received, kModel, {{0, kModel.rows()}});
  EXPECT_EQ(received.order.front(), "header");
  EXPECT_EQ(received.order[1], "value");
  EXPECT_EQ(received.order.back(), "summary");
  EXPECT_EQ(received.value, std::string(kModel.rows() * sizeof(float), 'v'));
  EXPECT_EQ(received.repeated_chunks, 0);
  EXPECT_EQ(received.header->workers(), 2);
  EXPECT_EQ(received.header->rows().begin(), 0);
  EXPECT_EQ(received.header->rows().count(), kModel.rows());
}

TEST(Jobs, SummaryAddsUpWhatWorkersSay) {
  Cluster cluster;
  cluster.AddWorker("a");
  const Received received = cluster.Compute(cluster.Request());
  ASSERT_TRUE(received.summary.has_value()) << received.status;
  const v1::JacobianSummary& summary = *received.summary;
  ASSERT_EQ(summary.phases_size(), 1);
  EXPECT_EQ(summary.phases(0).seconds(), static_cast<double>(summary.shards()));  // the script says 1 s per shard
  EXPECT_EQ(summary.payload_bytes(), kModel.rows() * (kModel.wide + kModel.narrow) * int64_t{sizeof(float)});
  ASSERT_EQ(summary.processes_size(), 2);
  EXPECT_EQ(summary.processes(0).role(), "coordinator");
  EXPECT_GT(summary.processes(0).peak_rss_bytes(), 0);
  EXPECT_EQ(summary.processes(1).name(), "a");
  EXPECT_EQ(summary.processes(1).peak_rss_bytes(), 1000);
  ASSERT_EQ(summary.shard_runs_size(), 1 + summary.shards());
  EXPECT_FALSE(summary.shard_runs(0).has_rows());  // prepared first
  int64_t rows = 0;
  double last_end = 0;
  for (const v1::ShardRun& run : summary.shard_runs()) {
    EXPECT_EQ(run.worker_id(), "a");
    EXPECT_TRUE(run.completed());
    EXPECT_GE(run.begin_seconds(), last_end);  // one worker does one thing after another
    EXPECT_GE(run.end_seconds(), run.begin_seconds());
    EXPECT_LE(run.end_seconds(), summary.seconds());
    last_end = run.end_seconds();
    rows += run.rows().count();
  }
  EXPECT_EQ(rows, kModel.rows());
  EXPECT_EQ(summary.shards_retried(), 0);
}

TEST(Jobs, FewRowsComeWithTheirPreparation) {
  const MadeUpModel few{.flops_per_row = 1e6};
  Cluster cluster;
  ScriptedWorker& a = cluster.AddWorker("a", {}, few);
  ScriptedWorker& b = cluster.AddWorker("b", {}, few);
  const Received received = cluster.Compute(cluster.Request());
  ExpectRows(received, few, {{0, few.rows()}});
  EXPECT_TRUE(a.shard_calls().empty() && b.shard_calls().empty()) << "they took no call of their own";
  EXPECT_EQ(received.order.back(), "summary");
  EXPECT_EQ(received.summary->shards(), 1);
  ASSERT_EQ(received.summary->shard_runs_size(), 2);
  EXPECT_FALSE(received.summary->shard_runs(0).has_rows());
  EXPECT_EQ(received.summary->shard_runs(1).rows().count(), few.rows());
}

TEST(Jobs, FewRowsThatAWorkerLeavesUndoneAreAnothers) {
  for (const Fault fault : {Fault::kDie, Fault::kError, Fault::kEndEarly, Fault::kWrongRows, Fault::kDoneTooEarly}) {
    const MadeUpModel few{.flops_per_row = 1e6};
    Cluster cluster;
    Script script;
    script.fault = fault;
    script.at_row = 7;
    std::atomic<bool> begun = false;
    Gate gate;
    script.before_shard = [&](RowRange) {
      begun = true;
      gate.Pass();
    };
    cluster.AddWorker("bad", script, few);
    Received received;
    std::thread client([&] { received = cluster.Compute(cluster.Request()); });
    EXPECT_TRUE(cluster.WaitFor([&] { return begun.load(); }));
    cluster.AddWorker("good", {}, few);
    gate.Open();
    client.join();
    ExpectRows(received, few, {{0, few.rows()}});
    EXPECT_EQ(received.summary->shards_retried(), 1);
  }
}

struct FaultCase {
  const char* name;
  Fault fault;
};

class OneBadWorker : public testing::TestWithParam<FaultCase> {};

TEST_P(OneBadWorker, DoesNotChangeTheRows) {
  Cluster cluster;
  Gate gate;
  Script script;
  script.fault = GetParam().fault;
  script.at_row = 2;
  script.before_shard = [&](RowRange) { gate.Pass(); };
  ScriptedWorker& bad = cluster.AddWorker("bad", script);
  Received received;
  std::thread client([&] { received = cluster.Compute(cluster.Request()); });
  EXPECT_TRUE(cluster.WaitFor([&] { return !bad.shard_calls().empty(); }));
  cluster.AddWorker("good");
  gate.Open();
  client.join();
  ExpectRows(received, kModel, {{0, kModel.rows()}});
  EXPECT_EQ(received.summary->shards_retried(), 1);
  const auto& runs = received.summary->shard_runs();
  const auto unfinished = std::find_if(runs.begin(), runs.end(), [](const auto& run) { return !run.completed(); });
  ASSERT_NE(unfinished, runs.end());
  EXPECT_EQ(unfinished->worker_id(), "bad");
  // Rows that were done when the fault came are not sent again.
  EXPECT_EQ(received.done.size(), static_cast<size_t>(kModel.rows()));
}

INSTANTIATE_TEST_SUITE_P(Faults, OneBadWorker,
                         testing::Values(FaultCase{"Dies", Fault::kDie}, FaultCase{"EndsWithAnError", Fault::kError},
                                         FaultCase{"EndsEarly", Fault::kEndEarly},
                                         FaultCase{"SendsRowsNobodyAskedFor", Fault::kWrongRows},
                                         FaultCase{"ReportsRowsBeforeTheirChunks", Fault::kDoneTooEarly}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Jobs, RowsOfAShardMayComeInAnyOrder) {
  Cluster cluster;
  Script script;
  script.backwards = true;
  script.fault = Fault::kError;  // with rows done behind the missing ones
  script.at_row = 3;
  cluster.AddWorker("a", script);
  ExpectRows(cluster.Compute(cluster.Request()), kModel, {{0, kModel.rows()}});
}

TEST(Jobs, AShardThatThreeAttemptsLostFailsTheJobWithItsRows) {
  Cluster cluster;
  Script script;
  script.fault = Fault::kError;
  script.at_row = 7;
  script.times = 1000;
  ScriptedWorker& a = cluster.AddWorker("a", script);
  ScriptedWorker& b = cluster.AddWorker("b", script);
  const Received received = cluster.Compute(cluster.Request());
  EXPECT_TRUE(absl::IsDataLoss(received.status)) << received.status;
  EXPECT_THAT(received.status.message(), HasSubstr("rows 7"));
  EXPECT_FALSE(received.summary.has_value());
  // Both were tried.
  const auto tried_row_7 = [](const ScriptedWorker& worker) {
    for (const auto& call : worker.shard_calls()) {
      if (call.rows.begin <= 7 && 7 < call.rows.end()) return true;
    }
    return false;
  };
  EXPECT_TRUE(tried_row_7(a));
  EXPECT_TRUE(tried_row_7(b));
}

TEST(Jobs, EmptyBatchGivesHeaderValueAndSummary) {
  Cluster cluster;
  MadeUpModel empty;
  empty.target_shape = {0, 56};
  ScriptedWorker& worker = cluster.AddWorker("a", {}, empty);
  const Received received = cluster.Compute(cluster.Request());
  ExpectRows(received, empty, {});
  EXPECT_THAT(received.order, ElementsAre("header", "value", "summary"));
  EXPECT_THAT(received.header->target_shape(), ElementsAre(0, 56));
  EXPECT_TRUE(worker.shard_calls().empty());
}

TEST(Jobs, NoRowsAskedForGivesHeaderValueAndSummary) {
  Cluster cluster;
  ScriptedWorker& worker = cluster.AddWorker("a");
  v1::ComputeJacobianRequest request = cluster.Request();
  request.mutable_rows()->set_begin(40);
  const Received received = cluster.Compute(request);
  ExpectRows(received, kModel, {});
  EXPECT_THAT(received.order, ElementsAre("header", "value", "summary"));
  EXPECT_TRUE(worker.shard_calls().empty());
}

TEST(Jobs, OnlyTheRowsAskedForCome) {
  Cluster cluster;
  cluster.AddWorker("a");
  v1::ComputeJacobianRequest request = cluster.Request();
  request.mutable_rows()->set_begin(3);
  request.mutable_rows()->set_count(6);
  for (const auto& [begin, count] : std::vector<std::pair<int, int>>{{30, 10}, {7, 5}, {20, 0}}) {
    v1::RowRange& more = *request.add_more_rows();
    more.set_begin(begin);
    more.set_count(count);
  }
  const Received received = cluster.Compute(request);
  ExpectRows(received, kModel, {{3, 9}, {30, 10}});
  EXPECT_EQ(received.header->rows().begin(), 3);
  EXPECT_EQ(received.header->rows().count(), 37);
}

TEST(Jobs, ErrorsOfRequestsSayWhatIsWrong) {
  Cluster cluster;
  cluster.AddWorker("a");
  const auto expect = [&](const v1::ComputeJacobianRequest& request, absl::StatusCode code, const char* words) {
    const Received received = cluster.Compute(request);
    EXPECT_EQ(received.status.code(), code) << received.status;
    EXPECT_THAT(received.status.message(), HasSubstr(words));
  };
  v1::ComputeJacobianRequest request = cluster.Request();
  request.mutable_rows()->set_begin(30);
  request.mutable_rows()->set_count(11);
  expect(request, absl::StatusCode::kOutOfRange, "30:41");
  request.mutable_rows()->set_begin(-1);
  expect(request, absl::StatusCode::kOutOfRange, "");
  request = cluster.Request();
  request.mutable_spec()->set_graph_sha256("short");
  expect(request, absl::StatusCode::kInvalidArgument, "32 bytes");
  request.mutable_spec()->set_graph_sha256(std::string(32, 'x'));
  expect(request, absl::StatusCode::kNotFound, "graph");
  request = cluster.Request();
  v1::NamedTensor& weight = *request.mutable_spec()->add_weights();
  weight.set_name("dense/kernel");
  weight.mutable_tensor()->set_dtype(v1::DATA_TYPE_FLOAT32);
  weight.mutable_tensor()->add_shape(4);
  weight.mutable_tensor()->set_sha256(std::string(32, 'x'));
  expect(request, absl::StatusCode::kNotFound, "dense/kernel");
  weight.mutable_tensor()->set_sha256(request.spec().graph_sha256());
  expect(request, absl::StatusCode::kInvalidArgument, "dense/kernel");
  weight.clear_name();
  expect(request, absl::StatusCode::kInvalidArgument, "name");
}

TEST(Jobs, WhatAWorkerRefusesIsTheAnswer) {
  Cluster cluster;
  Script script;
  script.prepare_status = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "operators: Einsum");
  cluster.AddWorker("a", script);
  const Received received = cluster.Compute(cluster.Request());
  EXPECT_TRUE(absl::IsUnimplemented(received.status)) << received.status;
  EXPECT_EQ(received.status.message(), "operators: Einsum");
}

TEST(Jobs, NoWorkerIsUnavailable) {
  Cluster cluster;
  EXPECT_TRUE(absl::IsUnavailable(cluster.Compute(cluster.Request()).status));
}

TEST(Jobs, JobWaitsForAWorkerToComeBack) {
  Cluster cluster;
  Script script;
  script.fault = Fault::kDie;
  script.at_row = 5;
  cluster.AddWorker("a", script);
  Received received;
  std::thread client([&] { received = cluster.Compute(cluster.Request()); });
  EXPECT_TRUE(cluster.WaitFor([&] { return cluster.coordinator().scheduler().Counts().workers_ready == 0; }));
  cluster.AddWorker("a");  // the same id again
  client.join();
  ExpectRows(received, kModel, {{0, kModel.rows()}});
}

TEST(Jobs, WorkerThatLeavesIsNotBlamed) {
  Cluster cluster;
  Script script;
  script.fault = Fault::kHang;
  script.at_row = 5;
  ScriptedWorker& leaver = cluster.AddWorker("leaver", script);
  Received received;
  std::thread client([&] { received = cluster.Compute(cluster.Request()); });
  EXPECT_TRUE(cluster.WaitFor([&] { return !leaver.shard_calls().empty(); }));
  cluster.AddWorker("stayer");
  leaver.Leave();
  client.join();
  ExpectRows(received, kModel, {{0, kModel.rows()}});
  EXPECT_EQ(received.summary->shards_retried(), 0);
}

TEST(Jobs, BusyWorkerIsAskedAgainAndNotBlamed) {
  Cluster cluster;
  Script script;
  script.busy_times = 5;
  cluster.AddWorker("a", script);
  const Received received = cluster.Compute(cluster.Request());
  ExpectRows(received, kModel, {{0, kModel.rows()}});
  EXPECT_EQ(received.summary->shards_retried(), 0);
}

TEST(Jobs, DescribeIsAnsweredByAWorkerThatSurvivesIt) {
  Cluster cluster;
  Script dies;
  dies.fault = Fault::kDie;
  cluster.AddWorker("fragile", dies);
  cluster.AddWorker("robust");
  grpc::ClientContext context;
  v1::DescribeModelRequest request;
  request.set_graph_sha256(cluster.Request().spec().graph_sha256());
  v1::ModelDescription description;
  const grpc::Status status = cluster.client().DescribeModel(&context, request, &description);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(description.producer(), "robust");
}

}  // namespace
}  // namespace jacserve::cluster
