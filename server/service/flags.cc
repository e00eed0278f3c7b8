#include "server/service/flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <map>
#include <system_error>

#include "absl/strings/numbers.h"
#include "common/size_text.h"

namespace jacserve::server {
namespace {

// The worker beside this program, or where JACSERVE_BIN says.
std::filesystem::path WorkerProgram() {
  if (const char* folder = std::getenv("JACSERVE_BIN"); folder != nullptr && *folder != '\0') {
    return std::filesystem::path(folder) / "jacserve-worker";
  }
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "jacserve-worker";
}

// Writes a size flag's bytes; what is wrong with the text otherwise.
CLI::Validator SizeInto(int64_t& bytes) {
  return CLI::Validator(
      [&bytes](std::string& text) {
        const absl::StatusOr<int64_t> size = ParseSize(text);
        if (!size.ok()) return std::string(size.status().message());
        bytes = *size;
        return std::string();
      },
      "SIZE");
}

CLI::Validator SizeOrPercent() {
  return CLI::Validator(
      [](std::string& text) {
        const absl::Status status = CheckSizeOrPercent(text);
        return status.ok() ? std::string() : std::string(status.message());
      },
      "SIZE|PERCENT");
}

CLI::Validator WorkersInto(int& count) {
  return CLI::Validator(
      [&count](std::string& text) {
        if (text == "auto") {
          count = kAutoWorkers;
          return std::string();
        }
        const bool valid = absl::SimpleAtoi(text, &count) && count >= 0 && count <= 1'024;
        return valid ? std::string() : "'" + text + "' is neither auto nor a number from 0 to 1024";
      },
      "N|auto");
}

}  // namespace

std::variant<Flags, int> ParseFlags(int argc, char** argv) {
  Flags flags;
  CoordinatorOptions& options = flags.coordinator;
  options.local_workers.program = WorkerProgram();
  std::string quota, workers, state_directory;
  const std::map<std::string, WorkerDevice> devices = {{"auto", WorkerDevice::kAuto},
                                                       {"cpu", WorkerDevice::kCpu},
                                                       {"cuda", WorkerDevice::kCuda},
                                                       {"reference", WorkerDevice::kReference}};
  CLI::App app("Takes models and batches, splits the rows of their Jacobians over workers, streams them to clients.",
               "jacserve-coordinator");
  app.set_version_flag("--version", "jacserve-coordinator " JACSERVE_VERSION);
  app.add_option("--listen", options.listen, "Where clients and workers connect, HOST:PORT; port 0 takes a free one")
      ->capture_default_str();
  app.add_option(
      "--tokens", options.access.tokens,
      "File of who may use this server, a line for each: NAME ROLE[,ROLE] SHA256, as `jacserve token` prints; "
      "read again when it changes. Without it everybody may who can connect");
  app.add_option("--audit-log", options.access.audit_log,
                 "File for a line of JSON about each upload, model read, Jacobian and worker: who, what, how much");
  app.add_option("--tls-cert", options.access.tls.cert, "Certificate to serve encrypted with, PEM");
  app.add_option("--tls-key", options.access.tls.key, "Its key, PEM; both are read again when they change");
  app.add_option("--tls-client-ca", options.access.tls.ca,
                 "Authorities, PEM: clients and workers must show a certificate of them");
  app.add_option("--tls-worker-ca", options.worker_ca,
                 "Authorities of the certificates of workers that are called encrypted, PEM (default: the clients')");
  app.add_flag("--insecure", options.access.insecure,
               "Listen to other machines without tokens or encryption: for networks that are trusted");
  app.add_option("--state-dir", state_directory, "Folder for uploads; they survive a restart")->required();
  app.add_option("--store-quota", quota, "Most bytes of uploads to keep (default 16GiB)")
      ->check(SizeInto(options.store_quota_bytes));
  app.add_option("--local-workers", workers, "Worker processes to start on this machine (default 0)")
      ->check(WorkersInto(options.local_workers.count));
  app.add_option("--device", options.local_workers.device,
                 "What they compute on: auto (a worker for each GPU, without any the CPU), cpu, cuda, or reference: "
                 "plain loops, for comparison")
      ->transform(CLI::CheckedTransformer(devices));
  app.add_option("--worker-memory-budget", options.local_workers.memory_budget,
                 "Memory of each local worker, as 512MiB; of a GPU also as 80% of what is free when it starts")
      ->check(SizeOrPercent());
  app.add_option("--metrics-listen", flags.metrics_listen, "Where Prometheus may scrape, HOST:PORT");
  app.add_option("--port-file", flags.port_file, "File to write the port to, once it can be connected to");
  app.add_option("--drain-timeout", flags.drain_seconds, "Seconds that running jobs may take after SIGTERM")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warning, error or off")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  options.state_directory = state_directory;
  options.local_workers.log_level = flags.log_level;
  return flags;
}

}  // namespace jacserve::server
