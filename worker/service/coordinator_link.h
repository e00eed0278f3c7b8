// Keeps the coordinator knowing this worker: registers, beats, registers again, leaves.
// In: a registration. Out: calls of WorkerRegistry, and one call to `on_end` when the worker had better end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "grpcpp/channel.h"
#include "jacserve/v1/worker_service.grpc.pb.h"

namespace jacserve::worker {

struct LinkOptions {
  v1::RegisterRequest registration;
  std::chrono::milliseconds gone_timeout{300'000};  // without an answer from the coordinator
  std::chrono::milliseconds first_backoff{100};
  std::chrono::milliseconds last_backoff{5'000};
};

class CoordinatorLink {
 public:
  // `on_end` is called at most once, from the link's thread: OK when the coordinator asked the worker to drain,
  // InvalidArgument, Unauthenticated or PermissionDenied when it refused the registration, Unavailable when it was gone
  // for longer than gone_timeout.
  CoordinatorLink(std::shared_ptr<grpc::Channel> channel, LinkOptions options,
                  std::function<void(const absl::Status&)> on_end);
  ~CoordinatorLink();  // stops beating, without leaving

  // Tells the coordinator at once, and with every beat from now on, that this worker takes no further shard.
  void Drain();

  // Stops beating and tells the coordinator that this worker ends.
  void Leave();

 private:
  using Clock = std::chrono::steady_clock;

  void Run();
  absl::Status Register();
  absl::Status Beat(bool draining);
  void OnFailure(const absl::Status& status);
  void End(const absl::Status& reason);
  void Stop();

  const LinkOptions options_;
  const std::function<void(const absl::Status&)> on_end_;
  const std::unique_ptr<v1::WorkerRegistry::Stub> stub_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool draining_ = false;
  bool drain_told_ = false;

  // Of the link's thread alone.
  bool registered_ = false;
  bool ended_ = false;
  bool warned_ = false;
  std::chrono::milliseconds interval_{1'000};
  std::chrono::milliseconds backoff_;
  Clock::time_point last_answer_;

  std::thread thread_;
};

}  // namespace jacserve::worker
