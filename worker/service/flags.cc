#include "worker/service/flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/cpu_list.h"
#include "common/size_text.h"
#include "common/token.h"
#include "worker/service/cpu_list.h"

namespace jacserve::worker {
namespace {

std::string DefaultId() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) name[0] = '\0';
  return absl::StrCat(name, "-", getpid());
}

// Stores what `parse` makes of the text; what is wrong with it otherwise.
template <class T, class Parse>
CLI::Validator Into(T& value, Parse parse, const char* type) {
  return CLI::Validator(
      [&value, parse](std::string& text) {
        absl::StatusOr<T> parsed = parse(text);
        if (!parsed.ok()) return std::string(parsed.status().message());
        value = *std::move(parsed);
        return std::string();
      },
      type);
}

constexpr int kGpuThreads = 3;

// "2GiB", or of a GPU also "80%". CLI::ValidationError: anything else.
void ReadBudget(const std::string& text, Flags& flags) {
  RunnerOptions& runner = flags.worker.runner;
  const bool gpu = runner.backend == BackendKind::kCuda;
  if (text.back() == '%' && gpu) {
    const absl::StatusOr<int> percent = ParsePercent(text);
    if (!percent.ok()) throw CLI::ValidationError("--memory-budget", std::string(percent.status().message()));
    flags.gpu_percent = *percent;
    return;
  }
  const absl::StatusOr<int64_t> size = ParseSize(text);
  if (!size.ok()) throw CLI::ValidationError("--memory-budget", std::string(size.status().message()));
  (gpu ? runner.gpu_budget_bytes : runner.memory_budget_bytes) = *size;
}

// CLI::ValidationError: a file that cannot be read or holds none.
void ReadToken(const std::string& path, std::string& token) {
  absl::StatusOr<std::string> read = TokenFrom(path);
  if (!read.ok()) throw CLI::ValidationError("--token-file", std::string(read.status().message()));
  token = *std::move(read);
}

}  // namespace

std::variant<Flags, int> ParseFlags(int argc, char** argv) {
  Flags flags;
  WorkerOptions& worker = flags.worker;
  worker.id = DefaultId();
  worker.runner.threads = 0;
  std::string budget, host_memory, cpus, token_file;
  bool tls = false;
  double idle_seconds = -1;
  double gone_seconds = std::chrono::duration<double>(worker.coordinator_timeout).count();
  const std::map<std::string, BackendKind> backends = {
      {"cpu", BackendKind::kCpu}, {"cuda", BackendKind::kCuda}, {"reference", BackendKind::kReference}};

  CLI::App app("Computes rows of Jacobians for a jacserve-coordinator.", "jacserve-worker");
  app.set_version_flag("--version", "jacserve-worker " JACSERVE_VERSION);
  app.add_option("--coordinator", worker.coordinator, "Where the coordinator is: HOST:PORT or unix:PATH");
  app.add_option("--listen", worker.listen, "Where the coordinator may call: HOST:PORT, port 0 for any, or unix:PATH")
      ->capture_default_str();
  app.add_option("--advertise", worker.advertise, "Address told to the coordinator, when it differs from --listen");
  app.add_option("--token-file", token_file, "File with the token to join with (default: JACSERVE_TOKEN)");
  app.add_flag("--tls", tls, "Connect to the coordinator encrypted; implied by the three options that follow");
  app.add_option("--tls-ca", worker.tls.ca,
                 "Authorities that the coordinator's certificate must be of, PEM (default: the system's)");
  app.add_option("--tls-cert", worker.tls.cert, "Certificate to serve encrypted with and to show, PEM");
  app.add_option("--tls-key", worker.tls.key, "Its key, PEM; files are read again when they change");
  app.add_flag("--insecure", worker.insecure,
               "Listen to other machines without encryption: for networks that are trusted");
  app.add_option("--id", worker.id, "Name among the coordinator's workers")->capture_default_str();
  app.add_option(
      "--memory-budget", budget,
      "Memory to work in (default 2GiB); with --device cuda the GPU's, or a percentage of what is free of it "
      "at the start (default 80%)");
  app.add_option("--host-memory", host_memory, "With --device cuda: memory for graphs and tensors (default 2GiB)")
      ->check(Into(worker.runner.memory_budget_bytes, ParseSize, "SIZE"));
  app.add_option(
         "--threads", worker.runner.threads,
         "Threads to compute with (default: one per core; three for a GPU: one computes, one copies, one sends)")
      ->check(CLI::Range(1, 4'096));
  app.add_option("--device,--backend", worker.runner.backend,
                 "What to compute on: cpu, cuda, or reference: plain loops, for comparison")
      ->transform(CLI::CheckedTransformer(backends));
  app.add_option("--cpus", cpus, "Cores to run on, for example 0-3,8")->check(Into(flags.cpus, ParseCpuList, "LIST"));
  app.add_option("--idle-release", idle_seconds,
                 "Seconds without a request after which memory is given back; 0: never (default 0, with cuda 60)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--metrics-listen", flags.metrics_listen, "Where Prometheus may scrape, HOST:PORT");
  app.add_option("--coordinator-timeout", gone_seconds, "Seconds without a coordinator after which to end")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--drain-timeout", flags.drain_seconds, "Seconds that a running shard may take after SIGTERM")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warning, error or off")->capture_default_str();
  app.add_flag("--list-gpus", flags.list_gpus, "Print the GPUs that can be seen, as JSON, and end");
  app.add_flag("--die-with-parent", flags.die_with_parent, "End at once when the process that started this one ends");
  try {
    app.parse(argc, argv);
    if (worker.coordinator.empty() && !flags.list_gpus) throw CLI::RequiredError("--coordinator");
    if (!budget.empty()) ReadBudget(budget, flags);
    ReadToken(token_file, worker.coordinator_access.token);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const bool any_file = !worker.tls.ca.empty() || !worker.tls.cert.empty() || !worker.tls.key.empty();
  if (tls || any_file) worker.coordinator_access.tls = worker.tls;
  worker.coordinator_timeout = std::chrono::milliseconds(static_cast<int64_t>(gone_seconds * 1e3));
  const bool gpu = worker.runner.backend == BackendKind::kCuda;
  if (idle_seconds < 0) idle_seconds = gpu ? 60 : 0;
  worker.runner.idle_release = std::chrono::milliseconds(static_cast<int64_t>(idle_seconds * 1e3));
  if (worker.runner.threads == 0 && gpu) worker.runner.threads = kGpuThreads;
  if (worker.runner.threads == 0) {
    worker.runner.threads = flags.cpus.empty() ? UsableCpus() : static_cast<int>(flags.cpus.size());
  }
  return flags;
}

}  // namespace jacserve::worker
