// The coordinator's side of WorkerRegistry as a test scripts it, over real gRPC.
// In: blobs, answers. Out: what workers said, and ways to wait for it.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/channel.h"
#include "common/digest.h"
#include "jacserve/v1/worker_service.grpc.pb.h"

namespace jacserve::worker {

class ScriptedRegistry final : public v1::WorkerRegistry::Service {
 public:
  // Seen and scripted under the lock; see With and WaitUntil.
  struct State {
    std::vector<v1::RegisterRequest> registrations;
    int beats = 0;
    int draining_beats = 0;
    int leaves = 0;
    int64_t peak_rss_bytes = 0;

    grpc::Status register_status;
    bool known = true;  // false: the next beat is told NotFound, once
    bool ask_to_drain = false;
    bool damage_blobs = false;
    std::map<std::string, std::string> blobs;
  };

  explicit ScriptedRegistry(int port = 0) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~ScriptedRegistry() override { server_->Shutdown(std::chrono::system_clock::now()); }

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  void With(const std::function<void(State&)>& use) {
    std::lock_guard lock(mutex_);
    use(state_);
  }

  // Whether it became true within a minute; tests that pass never wait so long.
  bool WaitUntil(const std::function<bool(const State&)>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return condition(state_); });
  }

  // The address of the worker that registered as the nth, counted from 1.
  std::string WorkerAddress(size_t nth = 1) {
    if (!WaitUntil([&](const State& state) { return state.registrations.size() >= nth; })) return "";
    std::lock_guard lock(mutex_);
    return state_.registrations[nth - 1].address();
  }

  // To that worker, with the token that it wants to see.
  std::shared_ptr<grpc::Channel> WorkerChannel(size_t nth = 1) {
    const std::string address = WorkerAddress(nth);
    std::lock_guard lock(mutex_);
    if (state_.registrations.size() < nth) return *OpenChannel(address);
    return *OpenChannel(address, {.token = state_.registrations[nth - 1].call_token()});
  }

  void Hold(const std::string& blob) {
    With([&](State& state) { state.blobs[Sha256Of(std::as_bytes(std::span(blob)))] = blob; });
  }

  grpc::Status Register(grpc::ServerContext*, const v1::RegisterRequest* request,
                        v1::RegisterResponse* response) override {
    std::lock_guard lock(mutex_);
    state_.registrations.push_back(*request);
    response->set_heartbeat_interval_ms(40);
    changed_.notify_all();
    return state_.register_status;
  }

  grpc::Status Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override {
    std::lock_guard lock(mutex_);
    ++state_.beats;
    state_.draining_beats += request->draining() ? 1 : 0;
    state_.peak_rss_bytes = request->peak_rss_bytes();
    response->set_drain(state_.ask_to_drain);
    changed_.notify_all();
    const bool known = std::exchange(state_.known, true);
    return known ? grpc::Status::OK : grpc::Status(grpc::StatusCode::NOT_FOUND, "who?");
  }

  grpc::Status Leave(grpc::ServerContext*, const v1::LeaveRequest*, v1::LeaveResponse*) override {
    std::lock_guard lock(mutex_);
    ++state_.leaves;
    changed_.notify_all();
    return grpc::Status::OK;
  }

  grpc::Status FetchBlob(grpc::ServerContext*, const v1::FetchBlobRequest* request,
                         grpc::ServerWriter<v1::FetchBlobResponse>* writer) override {
    std::string blob;
    {
      std::lock_guard lock(mutex_);
      const auto found = state_.blobs.find(request->sha256());
      if (found == state_.blobs.end()) return {grpc::StatusCode::NOT_FOUND, "not uploaded"};
      blob = found->second;
      if (state_.damage_blobs) blob.back() = static_cast<char>(blob.back() ^ 1);
    }
    constexpr size_t kPieceBytes = 100'000;
    v1::FetchBlobResponse piece;
    piece.set_size_bytes(static_cast<int64_t>(blob.size()));
    for (size_t begin = 0; begin == 0 || begin < blob.size(); begin += kPieceBytes) {
      piece.set_data(blob.substr(begin, kPieceBytes));
      writer->Write(piece);
      piece.clear_size_bytes();
    }
    return grpc::Status::OK;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace jacserve::worker
