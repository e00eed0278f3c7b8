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
