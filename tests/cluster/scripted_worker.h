// A worker that computes made-up rows and fails as its script says. Real gRPC, real registration; no engine.
// In: what its model looks like, which faults to show. Out: streams as a real worker sends them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/row_range.h"
#include "jacserve/v1/worker_service.grpc.pb.h"

namespace jacserve::cluster {

// What every scripted worker "computes": two connected blocks and one that the target does not reach.
struct MadeUpModel {
  std::vector<int64_t> target_shape{40};
  int64_t row_tile = 4;
  int64_t wide = 1000;  // columns of block "wide"
  int64_t narrow = 3;   // columns of block "narrow"
  double flops_per_row = 4e8;

  int64_t rows() const;
  float At(int block, int64_t row, int64_t column) const;
};

enum class Fault {
  kNone,
  kDie,           // the process is gone in the middle of the row
  kError,         // the stream ends with `code`
  kEndEarly,      // the stream ends well, rows are missing
  kWrongRows,     // a chunk of rows that were not asked for
  kDoneTooEarly,  // rows_done before the chunks
  kHang,          // nothing more comes until the call is cancelled
};

struct Script {
  Fault fault = Fault::kNone;
  int64_t at_row = 0;  // the fault happens when this row is due
  int times = 1;       // so often
  grpc::StatusCode code = grpc::StatusCode::INTERNAL;
  bool backwards = false;                      // rows of a shard, last first
  std::optional<grpc::Status> prepare_status;  // what Prepare answers instead
  int busy_times = 0;                          // so many shards are refused as if another call were still under way
  std::function<void(RowRange)> before_shard;  // called before the first row of a shard
};

class ScriptedWorker final : public v1::WorkerService::Service {
 public:
  // Serves and registers with the coordinator at `coordinator`; beats until it dies or is destroyed.
  ScriptedWorker(std::string id, MadeUpModel model, Script script, const std::string& coordinator);
  ~ScriptedWorker() override;

  struct ShardCall {
    std::string output;  // the request's target.output: tests name their jobs by it
    RowRange rows;
  };
  std::vector<ShardCall> shard_calls() const;

  // Rows that its transport has accepted.
  int64_t rows_written() const { return rows_written_; }

  // Whether a call was cancelled within `wait`.
  bool WaitForCancelledCall(std::chrono::seconds wait);

  // Leaves in good order.
  void Leave();

  grpc::Status DescribeModel(grpc::ServerContext*, const v1::DescribeModelRequest*, v1::ModelDescription*) override;
  grpc::Status Prepare(grpc::ServerContext*, const v1::PrepareRequest*,
                       grpc::ServerWriter<v1::JacobianEvent>* writer) override;
  grpc::Status ComputeShard(grpc::ServerContext*, const v1::ComputeShardRequest*,
                            grpc::ServerWriter<v1::JacobianEvent>* writer) override;

 private:
  using Writer = grpc::ServerWriter<v1::JacobianEvent>;

  bool TakeFault(int64_t row);
  bool MayFollow(const v1::PrepareRequest& request) const;
  grpc::Status WriteShard(grpc::ServerContext& context, Writer& writer, RowRange rows);
  bool WriteRow(Writer& writer, int64_t row);
  static bool WriteRowsDone(Writer& writer, RowRange rows);
  grpc::Status Misbehave(grpc::ServerContext& context, Writer& writer, int64_t row);
  void Die();
  void Beat();

  const std::string id_;
  const MadeUpModel model_;
  const Script script_;
  const std::unique_ptr<v1::WorkerRegistry::Stub> registry_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int faults_left_;
  int busy_left_;
  int cancelled_calls_ = 0;
  std::atomic<int64_t> rows_written_ = 0;
  bool dead_ = false;
  bool ending_ = false;
  std::vector<ShardCall> calls_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::thread beat_;
  std::thread undertaker_;  // shuts the server down when the worker dies
};

}  // namespace jacserve::cluster
