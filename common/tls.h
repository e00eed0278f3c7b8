// Encrypted connections: credentials from PEM files, read again when the files change.
// In: paths. Out: gRPC credentials, or what is wrong with the files.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"

namespace jacserve {

// Paths of PEM files; empty: none.
struct TlsFiles {
  std::string ca;    // certificates of authorities that the peer's must come from
  std::string cert;  // this program's own, with what leads from it to its authority
  std::string key;   // of `cert`
};

// What is wrong, naming the file: unreadable, not PEM, a key without its certificate or of another one.
absl::Status CheckTlsFiles(const TlsFiles& files);

// For a server; `cert` and `key` are needed. With `ca`, clients must show a certificate of it. Errors: CheckTlsFiles.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsServerCredentials(const TlsFiles& files);

// For a client. The server's certificate must be of `ca`, without one of the system's authorities, and name the host.
// Errors: CheckTlsFiles.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsChannelCredentials(const TlsFiles& files);

}  // namespace jacserve
