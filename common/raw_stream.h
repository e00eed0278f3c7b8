// Server streams whose messages stay bytes: what generated code does, with grpc::ByteBuffer for the response.
// Server: in the constructor of a class derived from the generated Service, MarkMethodStreamed(METHOD'S PLACE IN THE
// SERVICE, RawHandler<Request>(...).release()). Client: OpenRawStream.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/impl/codegen/method_handler.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/sync_stream.h"

namespace jacserve {

template <class Request>
using RawStreamer = grpc::ServerSplitStreamer<Request, grpc::ByteBuffer>;

// What comes on a stream after a message.
enum class Next { kLater, kSoon, kEnd };

// So small that it is worth its waiting for the next message.
constexpr size_t kSmallMessageBytes = size_t{16} << 10;

// Writes messages so that small ones leave together with those that come soon, and the last one with the stream's
// status: each packet saves both sides a wake-up.
template <class Request>
class PackingWriter {
 public:
  explicit PackingWriter(RawStreamer<Request>& stream) : stream_(stream) {}

  // False: the client is gone.
  bool Write(const grpc::ByteBuffer& message, Next next) {
    grpc::WriteOptions options;
    // The first message never waits: gRPC would hold it back with the stream's metadata, and this call too.
    if (begun_ && next == Next::kSoon && message.Length() <= kSmallMessageBytes) options.set_buffer_hint();
    if (next == Next::kEnd) options.set_last_message();
    begun_ = true;
    return stream_.Write(message, options);
  }

 private:
  RawStreamer<Request>& stream_;
  bool begun_ = false;
};

// Handler of a raw server-streaming method. It must Read the request once, then Write any number of messages.
template <class Request>
std::unique_ptr<grpc::internal::MethodHandler> RawHandler(
    std::function<grpc::Status(grpc::ServerContext*, RawStreamer<Request>*)> handler) {
  return std::make_unique<grpc::internal::SplitServerStreamingHandler<Request, grpc::ByteBuffer>>(std::move(handler));
}

// Opens METHOD ("/jacserve.v1.WorkerService/ComputeShard") for reading raw messages. `context` outlives the reader.
template <class Request>
std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> OpenRawStream(grpc::Channel& channel, const char* method,
                                                                    grpc::ClientContext& context,
                                                                    const Request& request) {
  const grpc::internal::RpcMethod rpc(method, grpc::internal::RpcMethod::SERVER_STREAMING);
  return std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>>(
      grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create(&channel, rpc, &context, request));
}

}  // namespace jacserve
