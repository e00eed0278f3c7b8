// A connection for one command: to the server that was named, or to a private one.
// In: which server. Out: a client that is ready for work; the private server ends with the session.
#pragma once

#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "client/cli/local_server.h"
#include "client/cli/options.h"
#include "client/cpp/client.h"

namespace jacserve::client {

class Session {
 public:
  // `stop` ends every wait and call; a private server that dies requests it too. Unavailable: no server, or it has no
  // worker. Errors: LocalServer::Start, Client::Connect.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const ServerChoice& choice, const std::stop_source& stop);

  Client& client() { return *client_; }

  // A status in the light of what became of a private server: its end is the reason for what failed after it.
  absl::Status Explain(absl::Status status) const;

 private:
  Session() = default;
  absl::Status WaitForWorkers(const std::string& wanted, const std::stop_token& stop);

  std::unique_ptr<LocalServer> local_;  // outlives the client
  std::unique_ptr<Client> client_;
};

}  // namespace jacserve::client
