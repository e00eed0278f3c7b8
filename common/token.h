// The secret that a caller shows with every call, as `authorization: Bearer TOKEN`.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"

namespace jacserve {

constexpr char kTokenKey[] = "authorization";
constexpr char kTokenScheme[] = "Bearer ";

// Fresh and unguessable: 64 hex digits.
std::string NewToken();

// The first line of a file; without a path, JACSERVE_TOKEN, empty when unset. InvalidArgument: it cannot be read, or
// what it holds is no token.
absl::StatusOr<std::string> TokenFrom(const std::string& path);

// What the caller showed; empty: nothing.
std::string TokenOf(const grpc::ServerContext& context);

// Takes the same time wherever two secrets of one length differ.
bool SameSecret(std::string_view a, std::string_view b);

// InvalidArgument: an abstract socket, which no permission guards.
absl::Status CheckListenAddress(std::string_view listen);

// Whether the call came through a unix socket. Who may connect there is the file system's affair.
bool CameThroughSocketFile(const grpc::ServerContext& context);

// Whether only this machine can reach a server that listens at HOST:PORT or unix:PATH.
bool IsOnlyLocal(std::string_view listen);

}  // namespace jacserve
