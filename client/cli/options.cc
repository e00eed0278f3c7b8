#include "client/cli/options.h"

#include <algorithm>
#include <cmath>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "client/cpp/text.h"
#include "common/size_text.h"
#include "common/status.h"
#include "common/token.h"

namespace jacserve::client {
namespace {

constexpr int kMostLocalWorkers = 1'024;

constexpr char kFooter[] = R"(Exit codes: 0 done; 1 internal error; 2 wrong usage, file or model; 3 server unavailable;
4 verification failed; 5 out of space or over a limit; 130 interrupted.
Environment: JACSERVE_SERVER is used when neither --server nor --local is given; without it, --local auto, and
workers and info ask which server is meant. JACSERVE_TOKEN is shown to a server when --token-file is not given.)";

constexpr char kJacobianFooter[] = R"(Examples (without --weights where net.onnx holds its parameters itself):
  Jacobian of a classifier's outputs with respect to all its parameters, into a folder:
    jacserve jacobian net.onnx --weights net.safetensors --input x=images.npy --out jacobian --local 2
  Negated cosine similarity of two batches' embeddings, checked and discarded:
    jacserve jacobian net.onnx --weights w.npz --input x=a.npy --second x=b.npy --pairwise cosine --sign -1 \
        --verify expected.npz --server localhost:50051
  Rows 0 to 9 with respect to all kernels and the input, in double precision:
    jacserve jacobian net.onnx --weights net.safetensors --input x=images.npy --wrt '*.kernel' --wrt-input x \
        --rows 0:10 --precision fp64 --out part

--out DIR holds one .npy per block (a parameter, or an input: `x`, `second.x`), value.npy and index.json. Started again
after an interruption, the same command continues with the missing rows; a folder that holds its finished result already
is left as it is.
--verify compares with 1e-4 (float32) or 1e-9 (float64) of each array's largest absolute value; norms, dot products and
sums of rows with that of the block's largest norm when it is greater.
)";

std::string VersionText() { return Cat("jacserve ", JACSERVE_VERSION); }

// As CLI11 fills them, before they are checked.
struct RawOptions {
  std::string server, local, device, memory_budget, rows, token_file;
  TlsFiles tls;
  bool use_tls = false;
};

void AddServerOptions(CLI::App& command, Options& options, RawOptions& raw) {
  auto* server = command.add_option("--server", raw.server, "Coordinator to use")->type_name("HOST:PORT");
  command.add_option("--token-file", raw.token_file, "File with the token to show it (default: JACSERVE_TOKEN)")
      ->type_name("FILE");
  command.add_flag("--tls", raw.use_tls, "Connect encrypted; implied by the three options that follow");
  command.add_option("--tls-ca", raw.tls.ca, "Authorities that its certificate must be of (default: the system's)")
      ->type_name("PEM");
  command.add_option("--tls-cert", raw.tls.cert, "Certificate to show it")->type_name("PEM");
  command.add_option("--tls-key", raw.tls.key, "Its key")->type_name("PEM");
  command
      .add_option("--local", raw.local, "Start a private coordinator with N workers, or 'auto', and end it afterwards")
      ->type_name("N")
      ->excludes(server);
  command
      .add_option(
          "--device", raw.device,
          "What private workers compute on: auto (each GPU, without any the CPU), cpu, cuda, or reference: plain "
          "loops, for comparison")
      ->check(CLI::IsMember({"auto", "cpu", "cuda", "reference"}))
      ->excludes(server);
  command
      .add_option("--memory-budget", raw.memory_budget,
                  "Memory of each private worker, as 512MiB; of a GPU also as 80% of what is free (default 2GiB, 80%)")
      ->type_name("SIZE")
      ->excludes(server);
  command.add_flag("--json", options.json, "Print one JSON object on the last line, also for errors");
}

void AddTargetOptions(CLI::App& command, JacobianArguments& jacobian) {
  command.add_option("--input", jacobian.inputs, "Batched input, samples along axis 0 (repeatable)")
      ->type_name("NAME=FILE.npy")
      ->allow_extra_args(false)
      ->required();
  command.add_option("--second", jacobian.seconds, "The second batch of a pairwise target (repeatable)")
      ->type_name("NAME=FILE.npy")
      ->allow_extra_args(false);
  command.add_option("--shared-input", jacobian.shared, "Input that is the same for all samples (repeatable)")
      ->type_name("NAME=FILE.npy")
      ->allow_extra_args(false);
  command.add_option("--pairwise", jacobian.pairwise, "Rows are similarities of all pairs of the two batches")
      ->check(CLI::IsMember({"cosine", "dot", "sqdist"}));
  command.add_option("--sign", jacobian.sign, "Multiplies the similarity (default 1)");
  command.add_option("--epsilon", jacobian.epsilon, "Of the cosine's form (default 1e-12)");
  command
      .add_option("--cosine-form", jacobian.cosine_form, "How a cosine treats short embeddings (default sqrt_max_sum)")
      ->check(CLI::IsMember({"sqrt_max_sum", "max_norm", "add_product"}));
  command.add_option("--output", jacobian.output, "Graph output, when there are several")->type_name("NAME");
}

void AddJacobianOptions(CLI::App& command, Options& options, RawOptions& raw) {
  JacobianArguments& jacobian = options.jacobian;
  command.add_option("graph", jacobian.graph, "The model, an ONNX file")->type_name("GRAPH.onnx")->required();
  command.add_option("--weights", jacobian.weights, "Values of the parameters")->type_name("W.npz|W.safetensors");
  AddTargetOptions(command, jacobian);
  command
      .add_option("--wrt", jacobian.wrt,
                  "Parameters by name or pattern with * ? [] (default: all, or none beside --wrt-input)")
      ->type_name("NAME_OR_GLOB");
  command
      .add_option("--wrt-input", jacobian.wrt_inputs,
                  "Input to differentiate with respect to (repeatable); second.NAME: that of the second batch alone")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      .add_option("--rows", raw.rows,
                  "Only these rows of the flattened target, as numpy slices: BEGIN:END, without END, :END, BEGIN: and, "
                  "for the last ten, --rows=-10:")
      ->type_name("BEGIN:END");
  command
      .add_option(
          "--precision", jacobian.precision,
          "Arithmetic (default fp32); tf32, on GPUs, rounds the factors of products, fp16 and bf16 values between "
          "operators; sums stay fp32")
      ->check(CLI::IsMember({"fp32", "fp64", "tf32", "fp16", "bf16"}));
  command.add_option("--out", jacobian.out, "Folder for the result, or 'none' to discard the rows (default)")
      ->type_name("DIR|none");
  command.add_flag("--overwrite", jacobian.overwrite,
                   "Replace another request's result in --out, once this one is complete");
  command.add_option("--verify", jacobian.verify, "Compare with this file and fail when a figure is off")
      ->type_name("EXPECTED.npz");
  AddServerOptions(command, options, raw);
  command.footer(kJacobianFooter);
}

absl::Status Wrong(std::string_view option, std::string_view what) {
  return absl::InvalidArgumentError(Cat(option, ": ", what));
}

absl::Status CheckTarget(const CLI::App& command, const JacobianArguments& jacobian) {
  if (jacobian.pairwise.empty()) {
    for (const char* option : {"--second", "--sign", "--epsilon", "--cosine-form"}) {
      if (command.count(option) > 0) return Wrong(option, "needs --pairwise cosine, dot or sqdist");
    }
    return absl::OkStatus();
  }
  if (jacobian.seconds.empty()) return Wrong("--pairwise", "needs the second batch, --second NAME=FILE.npy");
  if (!std::isfinite(jacobian.sign) || jacobian.sign == 0) return Wrong("--sign", "must be a number other than 0");
  if (jacobian.pairwise != "cosine") {
    for (const char* option : {"--epsilon", "--cosine-form"}) {
      if (command.count(option) > 0) return Wrong(option, "is for --pairwise cosine only");
    }
  }
  if (!std::isfinite(jacobian.epsilon) || jacobian.epsilon < 0) return Wrong("--epsilon", "must be 0 or more");
  return absl::OkStatus();
}

// `asks_about_server`: the command's answer is of the server itself, and one started for the question has none to give.
absl::Status ChooseServer(const RawOptions& raw, const std::string& server_from_environment, bool asks_about_server,
                          ServerChoice& choice) {
  choice.server = raw.server.empty() && raw.local.empty() ? server_from_environment : raw.server;
  if (asks_about_server && choice.server.empty() && raw.local.empty()) {
    return absl::InvalidArgumentError(
        "which server? Give --server HOST:PORT or set JACSERVE_SERVER (--local auto starts a private one, to see what "
        "it "
        "would compute on)");
  }
  if (!raw.local.empty()) {
    int count = 0;
    if (raw.local != "auto" && (!absl::SimpleAtoi(raw.local, &count) || count < 1 || count > kMostLocalWorkers)) {
      return Wrong("--local",
                   Cat("'", raw.local, "' is not a number of workers from 1 to ", kMostLocalWorkers, " or 'auto'"));
    }
    choice.local = raw.local;
  }
  for (const auto& [option, text] :
       {std::pair<const char*, const std::string&>{"--memory-budget", raw.memory_budget}, {"--device", raw.device}}) {
    if (!text.empty() && !choice.server.empty()) return Wrong(option, "is for private workers; it needs --local");
  }
  const bool tls = raw.use_tls || !raw.tls.ca.empty() || !raw.tls.cert.empty() || !raw.tls.key.empty();
  if ((tls || !raw.token_file.empty()) && choice.server.empty()) {
    return Wrong(tls ? "--tls" : "--token-file", "is for a server; it needs --server HOST:PORT");
  }
  if (tls) choice.access.tls = raw.tls;
  if (!choice.server.empty()) {
    ASSIGN_OR_RETURN(choice.access.token, TokenFrom(raw.token_file));
  }
  if (!raw.device.empty()) choice.device = raw.device;
  if (raw.memory_budget.empty()) return absl::OkStatus();
  const absl::Status budget = CheckSizeOrPercent(raw.memory_budget);
  if (!budget.ok()) return Wrong("--memory-budget", std::string(budget.message()));
  choice.memory_budget = raw.memory_budget;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParsedCommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                                   const std::string& server_from_environment) {
  Options options;
  RawOptions raw;
  CLI::App app("Jacobians of neural networks, row by row, from a server or from private workers.", "jacserve");
  app.require_subcommand(1);
  app.set_version_flag("--version", VersionText());
  app.footer(kFooter);
  CLI::App* jacobian = app.add_subcommand("jacobian", "Compute a Jacobian");
  CLI::App* describe = app.add_subcommand("describe", "Show what a model holds and whether it is supported");
  CLI::App* workers = app.add_subcommand("workers", "List the server's workers");
  CLI::App* info = app.add_subcommand("info", "Show the server's state");
  CLI::App* token = app.add_subcommand("token", "Make a token, and the line that lets its owner in");
  CLI::App* version = app.add_subcommand("version", "Show this program's version");
  AddJacobianOptions(*jacobian, options, raw);
  describe->add_option("graph", options.jacobian.graph, "The model")->type_name("GRAPH.onnx")->required();
  for (CLI::App* command : {describe, workers, info}) AddServerOptions(*command, options, raw);
  token->add_option("name", options.token.name, "Whose it is")->required();
  token->add_option("--roles", options.token.roles, "What it permits: compute, upload, worker")->capture_default_str();
  token->add_flag("--json", options.json, "Print one JSON object");
  version->add_flag("--json", options.json, "Print one JSON object");

  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    app.parse(std::move(reversed));
  } catch (const CLI::CallForVersion&) {
    return ParsedCommandLine{std::nullopt, Cat(VersionText(), "\n")};
  } catch (const CLI::CallForHelp&) {
    return ParsedCommandLine{std::nullopt, app.help()};
  } catch (const CLI::CallForAllHelp&) {
    return ParsedCommandLine{std::nullopt, app.help("", CLI::AppFormatMode::All)};
  } catch (const CLI::ParseError& error) {
    const std::vector<CLI::App*> begun = app.get_subcommands();
    if (begun.empty() && !arguments.empty() && !arguments[0].starts_with('-')) {
      return absl::InvalidArgumentError(Cat("'", arguments[0], "' is no command of jacserve; see jacserve --help"));
    }
    return absl::InvalidArgumentError(
        Cat(error.what(), "; see jacserve ", begun.empty() ? "" : begun[0]->get_name() + " ", "--help"));
  }

  if (version->parsed()) return ParsedCommandLine{options, ""};
  if (token->parsed()) {
    options.command = Command::kToken;
    return ParsedCommandLine{options, ""};
  }
  options.command = jacobian->parsed()   ? Command::kJacobian
                    : describe->parsed() ? Command::kDescribe
                    : workers->parsed()  ? Command::kWorkers
                                         : Command::kInfo;
  const bool asks_about_server = workers->parsed() || info->parsed();
  RETURN_IF_ERROR(ChooseServer(raw, server_from_environment, asks_about_server, options.server));
  if (jacobian->parsed()) {
    RETURN_IF_ERROR(CheckTarget(*jacobian, options.jacobian));
    if (options.jacobian.out.empty()) return Wrong("--out", "give a folder, or 'none'");
    if (options.jacobian.overwrite && options.jacobian.out == "none") return Wrong("--overwrite", "needs --out DIR");
    if (!raw.rows.empty()) {
      const absl::StatusOr<std::optional<RowSlice>> rows = ParseRowSlice(raw.rows);
      if (!rows.ok()) return Wrong("--rows", std::string(rows.status().message()));
      options.jacobian.rows = *rows;
    }
  }
  return ParsedCommandLine{options, ""};
}

}  // namespace jacserve::client
