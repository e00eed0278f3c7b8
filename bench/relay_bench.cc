// A bare gRPC byte relay: one process sends chunks of zeros, one passes them on unread, one reads and drops them.
// What delivery costs when nothing is computed, checked or counted. usage: relay_bench [GB]; prints one JSON object.
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "bench/floors.h"
#include "common/channel.h"
#include "common/chunk_codec.h"
#include "common/process.h"
#include "common/raw_stream.h"
#include "jacserve/v1/jacobian_service.grpc.pb.h"
#include "jacserve/v1/worker_service.grpc.pb.h"

namespace jacserve::bench {
namespace {

constexpr int kComputeShardPlace = 2, kComputeJacobianPlace = 3;  // in the order of their services

class Sender : public v1::WorkerService::Service {
 public:
  explicit Sender(int64_t bytes) {
    MarkMethodStreamed(kComputeShardPlace, RawHandler<v1::ComputeShardRequest>([bytes](auto*, auto* stream) {
                                             v1::ComputeShardRequest request;
                                             stream->Read(&request);
                                             // Two warm chunks in turn, as the slots of a worker.
                                             std::vector<std::byte> memory(2 * kMaxChunkBytes);
                                             for (int64_t sent = 0, k = 0; sent < bytes; sent += kMaxChunkBytes, ++k) {
                                               const std::span<const std::byte> chunk(
                                                   memory.data() + k % 2 * kMaxChunkBytes, kMaxChunkBytes);
                                               if (!stream->Write(EncodeChunk({}, chunk, nullptr))) break;
                                             }
                                             return grpc::Status::OK;
                                           }).release());
  }
};

class Relay : public v1::JacobianService::Service {
 public:
  explicit Relay(const std::string& sender) {
    MarkMethodStreamed(kComputeJacobianPlace, RawHandler<v1::ComputeJacobianRequest>([sender](auto*, auto* stream) {
                                                v1::ComputeJacobianRequest request;
                                                stream->Read(&request);
                                                const auto channel = *OpenChannel(sender);
                                                grpc::ClientContext context;
                                                const auto reader =
                                                    OpenRawStream(*channel, "/jacserve.v1.WorkerService/ComputeShard",
                                                                  context, v1::ComputeShardRequest());
                                                grpc::ByteBuffer buffer;
                                                while (reader->Read(&buffer) && stream->Write(buffer)) buffer.Clear();
                                                return reader->Finish();
                                              }).release());
  }
};

// Serves in a child process until it is killed; returns its id and the port.
std::pair<pid_t, int> Serve(const std::function<std::unique_ptr<grpc::Service>()>& make) {
  int ports[2];
  if (pipe(ports) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    DieWithParent(getppid());
    const std::unique_ptr<grpc::Service> service = make();
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service.get());
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (write(ports[1], &port, sizeof port) != sizeof port) std::abort();
    server->Wait();
  }
  int port = 0;
  if (read(ports[0], &port, sizeof port) != sizeof port) std::abort();
  return {child, port};
}

int Main(int64_t bytes) {
  const auto [sender, sender_port] = Serve([&] { return std::make_unique<Sender>(bytes); });
  const std::string sender_address = "127.0.0.1:" + std::to_string(sender_port);
  const auto [relay, relay_port] = Serve([&] { return std::make_unique<Relay>(sender_address); });
  const auto channel = *OpenChannel("127.0.0.1:" + std::to_string(relay_port));
  int64_t received = 0;
  const double seconds = SecondsOf([&] {
    grpc::ClientContext context;
    const auto reader =
        OpenRawStream(*channel, "/jacserve.v1.JacobianService/ComputeJacobian", context, v1::ComputeJacobianRequest());
    grpc::ByteBuffer buffer;
    while (reader->Read(&buffer)) {
      received += static_cast<int64_t>(buffer.Length());
      buffer.Clear();
    }
    if (!reader->Finish().ok()) std::abort();
  });
  std::printf("{\"bytes\": %ld, \"seconds\": %.3f, \"gb_per_second\": %.2f}\n", received, seconds,
              static_cast<double>(received) * 1e-9 / seconds);
  for (const pid_t child : {sender, relay}) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return received >= bytes ? 0 : 1;
}

}  // namespace
}  // namespace jacserve::bench

int main(int argc, char** argv) {
  jacserve::TuneAllocator();
  return jacserve::bench::Main(static_cast<int64_t>((argc > 1 ? std::atof(argv[1]) : 14.29) * 1e9));
}
