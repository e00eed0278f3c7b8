// How every program connects to another one.
// In: a gRPC target. Out: a channel that finds a peer that comes back, and whose streams hold little memory.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/channel.h"

namespace jacserve {

// Connects on first use. No proxy; reconnects within a second; not shared with other channels, so that a peer that was
// restarted does not inherit the back-off of the one before it. Streams read a fixed window ahead: gRPC's own estimate
// grows to gigabytes when the reader is slower than the sender. No limit on the size of a message.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target);

}  // namespace jacserve
