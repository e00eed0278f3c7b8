// A coordinator in this process, scripted workers and bare clients, all over real gRPC.
// In: options and scripts. Out: what clients received, row by row.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "jacserve/v1/jacobian_service.grpc.pb.h"
#include "server/service/coordinator.h"
#include "tests/cluster/scripted_worker.h"

namespace jacserve::cluster {

// Everything that a client got from one stream, checked as it came.
struct Received {
  absl::Status status;
  std::optional<v1::JacobianHeader> header;
  std::optional<v1::JacobianSummary> summary;
  std::string value;
  std::map<int64_t, std::map<uint32_t, std::string>> rows;  // row -> block -> bytes
  std::vector<int64_t> done;                                // rows in the order reported, repeats included
  int repeated_chunks = 0;
  std::vector<std::string> order;  // kinds of events: "header", "value", "chunk", ...
};

// Holds threads up until it is opened.
class Gate {
 public:
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

class Cluster {
 public:
  // `token`: shown by the client.
  explicit Cluster(server::CoordinatorOptions options = FastOptions(), std::string token = "");
  ~Cluster();

  // Short intervals, small queues, a fresh state directory.
  static server::CoordinatorOptions FastOptions();

  // The client shows another token from now on.
  void ActAs(const std::string& token);

  // The coordinator ends and another starts on the same state directory.
  void RestartCoordinator();

  // Returns once the coordinator takes the worker for ready.
  ScriptedWorker& AddWorker(std::string id, Script script = {}, MadeUpModel model = {});
  void RemoveWorkers() { workers_.clear(); }

  server::Coordinator& coordinator() { return *coordinator_; }
  v1::JacobianService::Stub& client() { return *client_; }
  std::string address() const;

  // Uploads `bytes` in pieces, announced as `size`; the key.
  absl::Status Upload(const std::string& bytes, std::optional<int64_t> size = std::nullopt, std::string digest = "");
  bool Holds(const std::string& bytes);

  // A request for the rows of a graph that has been uploaded; workers see `name` as target.output.
  v1::ComputeJacobianRequest Request(const std::string& name = "job");

  // Reads the whole stream.
  Received Compute(const v1::ComputeJacobianRequest& request);
  static void Take(const v1::JacobianEvent& event, Received& received);

  bool WaitFor(const std::function<bool()>& condition);

 private:
  void Connect();

  server::CoordinatorOptions options_;
  std::string token_;
  std::unique_ptr<server::Coordinator> coordinator_;
  std::unique_ptr<v1::JacobianService::Stub> client_;
  std::vector<std::unique_ptr<ScriptedWorker>> workers_;
};

// Fails the test unless exactly `rows` came, complete, with the model's numbers.
void ExpectRows(const Received& received, const MadeUpModel& model, const std::vector<RowRange>& rows);

}  // namespace jacserve::cluster
