// Clients that go, wait, read slowly or come together.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/grpc_status.h"
#include "tests/cluster/cluster.h"

namespace jacserve::cluster {
namespace {

using std::chrono::seconds;

// Rows of 1 MiB: more than what lies between a worker and a client that does not read.
MadeUpModel BigModel() {
  MadeUpModel model;
  model.wide = 1 << 18;
  model.target_shape = {96};
  return model;
}

TEST(Clients, CancelledCallStopsTheWorkers) {
  Cluster cluster;
  Script script;
  script.fault = Fault::kHang;
  script.at_row = 1;
  ScriptedWorker& worker = cluster.AddWorker("a", script);
  grpc::ClientContext context;
  const auto reader = cluster.client().ComputeJacobian(&context, cluster.Request());
  v1::JacobianEvent event;
  while (reader->Read(&event) && !event.has_rows_done()) continue;
  context.TryCancel();
  EXPECT_TRUE(worker.WaitForCancelledCall(seconds(10)));
  EXPECT_TRUE(absl::IsCancelled(FromGrpc(reader->Finish())));
  EXPECT_TRUE(cluster.WaitFor([&] { return cluster.coordinator().Idle(); }));
}

TEST(Clients, DeadlineStopsTheWorkers) {
  Cluster cluster;
  Script script;
  script.fault = Fault::kHang;
  script.at_row = 1;
  ScriptedWorker& worker = cluster.AddWorker("a", script);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
  const auto reader = cluster.client().ComputeJacobian(&context, cluster.Request());
  v1::JacobianEvent event;
  while (reader->Read(&event)) continue;
  EXPECT_TRUE(absl::IsDeadlineExceeded(FromGrpc(reader->Finish())));
  EXPECT_TRUE(worker.WaitForCancelledCall(seconds(10)));
}

TEST(Clients, ClientThatStopsReadingAndGoesStopsTheWorkers) {
  Cluster cluster;
  ScriptedWorker& worker = cluster.AddWorker("a", {}, BigModel());
  grpc::ClientContext context;
  const auto reader = cluster.client().ComputeJacobian(&context, cluster.Request());
  v1::JacobianEvent event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_TRUE(cluster.WaitFor([&] { return !worker.shard_calls().empty(); }));
  context.TryCancel();
  EXPECT_TRUE(worker.WaitForCancelledCall(seconds(10)));
  EXPECT_TRUE(cluster.WaitFor([&] { return cluster.coordinator().Idle(); }));
}

TEST(Clients, SlowClientDoesNotStopASecondAndGetsItsRowsLater) {
  Cluster cluster;
  cluster.AddWorker("a", {}, BigModel());
  grpc::ClientContext context;
  const auto slow = cluster.client().ComputeJacobian(&context, cluster.Request("slow"));
  Received received;
  v1::JacobianEvent event;
  while (received.done.empty() && slow->Read(&event)) Cluster::Take(event, received);
  ASSERT_FALSE(received.done.empty());

  ExpectRows(cluster.Compute(cluster.Request("quick")), BigModel(), {{0, BigModel().rows()}});

  while (slow->Read(&event)) Cluster::Take(event, received);
  received.status = FromGrpc(slow->Finish());
  ExpectRows(received, BigModel(), {{0, BigModel().rows()}});
  EXPECT_EQ(received.summary->shards_retried(), 0);
}

TEST(Clients, SlowClientHoldsLittleMemory) {
  MadeUpModel model = BigModel();
  model.target_shape = {256};
  Cluster cluster;
  ScriptedWorker& worker = cluster.AddWorker("a", {}, model);
  grpc::ClientContext context;
  const auto slow = cluster.client().ComputeJacobian(&context, cluster.Request());
  int64_t rows_read = 0;
  int64_t most_ahead = 0;
  v1::JacobianEvent event;
  while (slow->Read(&event)) {
    if (!event.has_rows_done()) continue;
    ++rows_read;
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
    most_ahead = std::max(most_ahead, worker.rows_written() - rows_read);
  }
  ASSERT_TRUE(slow->Finish().ok());
  EXPECT_EQ(rows_read, 256);
  EXPECT_LT(most_ahead, 40);  // of 1 MiB each, sockets included
}

TEST(Clients, TwoClientsShareOneWorker) {
  Cluster cluster;
  Gate gate;
  Script script;
  script.before_shard = [&](RowRange) { gate.Pass(); };
  ScriptedWorker& worker = cluster.AddWorker("a", script);
  Received first, second;
  std::thread first_client([&] { first = cluster.Compute(cluster.Request("first")); });
  EXPECT_TRUE(cluster.WaitFor([&] { return worker.shard_calls().size() == 1; }));
  std::thread second_client([&] { second = cluster.Compute(cluster.Request("second")); });
  EXPECT_TRUE(cluster.WaitFor([&] { return cluster.coordinator().scheduler().Counts().jobs_open == 2; }));
  gate.Open();
  first_client.join();
  second_client.join();
  ExpectRows(first, MadeUpModel(), {{0, 40}});
  ExpectRows(second, MadeUpModel(), {{0, 40}});

  const auto calls = worker.shard_calls();
  size_t last_of_first = 0, first_of_second = calls.size();
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].output == "first") last_of_first = i;
    if (calls[i].output == "second") first_of_second = std::min(first_of_second, i);
  }
  EXPECT_LT(first_of_second, last_of_first);
}

TEST(Clients, DrainingServerFinishesWhatRunsAndTakesNoMore) {
  Cluster cluster;
  Gate gate;
  Script script;
  script.before_shard = [&](RowRange) { gate.Pass(); };
  ScriptedWorker& worker = cluster.AddWorker("a", script);
  Received running;
  std::thread client([&] { running = cluster.Compute(cluster.Request()); });
  EXPECT_TRUE(cluster.WaitFor([&] { return !worker.shard_calls().empty(); }));
  cluster.coordinator().Drain();
  EXPECT_TRUE(absl::IsUnavailable(cluster.Compute(cluster.Request()).status));
  EXPECT_FALSE(cluster.coordinator().Idle());
  gate.Open();
  client.join();
  ExpectRows(running, MadeUpModel(), {{0, 40}});
  EXPECT_TRUE(cluster.WaitFor([&] { return cluster.coordinator().Idle(); }));
}

TEST(Clients, WorkersAndServerAreListed) {
  Cluster cluster;
  cluster.AddWorker("a");
  ExpectRows(cluster.Compute(cluster.Request()), MadeUpModel(), {{0, 40}});
  grpc::ClientContext list_context, info_context;
  v1::ListWorkersResponse list;
  ASSERT_TRUE(cluster.client().ListWorkers(&list_context, {}, &list).ok());
  ASSERT_EQ(list.workers_size(), 1);
  EXPECT_EQ(list.workers(0).worker_id(), "a");
  EXPECT_EQ(list.workers(0).state(), v1::WORKER_STATE_READY);
  EXPECT_EQ(list.workers(0).rows_done(), 40);
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(cluster.client().GetServerInfo(&info_context, {}, &info).ok());
  EXPECT_EQ(info.workers_ready(), 1);
  EXPECT_EQ(info.jobs_running(), 0);
  EXPECT_GT(info.store_bytes(), 0);
}

}  // namespace
}  // namespace jacserve::cluster
