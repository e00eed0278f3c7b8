// How every program connects to another one.
// In: a gRPC target, and what is needed to be let in. Out: a channel that finds a peer that comes back, and whose
// streams hold little memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/tls.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/channel_arguments.h"

namespace jacserve {

// What this program shows to a peer, and wants to see of it.
struct PeerAccess {
  std::optional<TlsFiles> tls;  // none: unencrypted; a socket file always is
  std::string token;            // with every call; empty: none
};

// Connects on first use. Errors: CheckTlsFiles.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannelWith(const std::string& target, const PeerAccess& access,
                                                               const grpc::ChannelArguments& arguments);

// Between jacserve's own programs. No proxy; reconnects within a second; not shared with other channels, so that a peer
// that was restarted does not inherit the back-off of the one before it. Streams read a fixed window ahead: gRPC's own
// estimate grows to gigabytes when the reader is slower than the sender. No limit on the size of a message.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& target, const PeerAccess& access = {});

}  // namespace jacserve
