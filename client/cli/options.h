// The command line of `jacserve`. In: arguments and environment. Out: options, a help text, or what is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/row_slice.h"
#include "common/channel.h"

namespace jacserve::client {

enum class Command { kJacobian, kDescribe, kWorkers, kInfo, kToken, kVersion };

// Which server does the work: the one at `server`, or, when that is empty, a private one with `local` workers.
struct ServerChoice {
  std::string server;           // HOST:PORT
  PeerAccess access;            // of `server`
  std::string local = "auto";   // a count or "auto"
  std::string device = "auto";  // of private workers: "auto", "cpu", "cuda" or "reference"
  std::string memory_budget;    // of each, "512MiB" or of a GPU "80%"; empty: the worker's default
};

struct JacobianArguments {
  std::string graph;                                 // path
  std::string weights;                               // path; empty: none
  std::vector<std::string> inputs, seconds, shared;  // NAME=FILE
  std::string pairwise;                              // "cosine", "dot", "sqdist"; empty: the output itself
  double sign = 1.0;
  double epsilon = 1e-12;
  std::string cosine_form = "sqrt_max_sum";
  std::string output;
  std::vector<std::string> wrt, wrt_inputs;
  std::optional<RowSlice> rows;  // none: all
  std::string precision = "fp32";
  std::string out = "none";
  bool overwrite = false;
  std::string verify;  // path; empty: none
};

// A line for a coordinator's --tokens, with a fresh token.
struct TokenArguments {
  std::string name;
  std::string roles = "compute,upload";
};

struct Options {
  Command command = Command::kVersion;
  bool json = false;
  ServerChoice server;
  JacobianArguments jacobian;  // `graph` is describe's too
  TokenArguments token;
};

struct ParsedCommandLine {
  std::optional<Options> options;
  std::string help;  // when there are no options: what was asked for by --help or --version
};

// `server_from_environment`: JACSERVE_SERVER, empty when unset. The token is that of --token-file, else of
// JACSERVE_TOKEN. InvalidArgument: what is wrong, naming the option.
absl::StatusOr<ParsedCommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                                   const std::string& server_from_environment);

}  // namespace jacserve::client
