// `jacserve jacobian`: files to request, rows to where they are wanted, figures to a report.
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/progress_bar.h"
#include "client/cli/report.h"
#include "client/cli/request_files.h"
#include "client/cli/session.h"
#include "client/cpp/result/result_directory.h"
#include "client/cpp/text.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

using Clock = std::chrono::steady_clock;

// Wall seconds of one step after another.
class Stopwatch {
 public:
  double Lap() {
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }
  double Total() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

// Whether a request with this wrt asks for the block; with an empty one, all parameters are.
std::function<bool(const std::string&)> AskedFor(const JacobianRequest& request) {
  return [wrt = request.wrt, inputs = InputBlockNames(request)](const std::string& block) {
    const bool is_input = std::find(inputs.begin(), inputs.end(), block) != inputs.end();
    if (is_input) {
      const auto named = [&](const std::string& name) {
        return std::find(wrt.inputs().begin(), wrt.inputs().end(), name) != wrt.inputs().end();
      };
      return named(block) || (block.starts_with("second.") && named(block.substr(7)));
    }
    if (wrt.parameters().empty() && wrt.inputs().empty()) return true;
    return std::any_of(wrt.parameters().begin(), wrt.parameters().end(), [&](const std::string& pattern) {
      return pattern == block || ::fnmatch(pattern.c_str(), block.c_str(), 0) == 0;
    });
  };
}

absl::StatusOr<std::unique_ptr<Verifier>> MakeVerifier(const JacobianArguments& arguments,
                                                       const JacobianRequest& request) {
  if (arguments.verify.empty()) return nullptr;
  absl::StatusOr<ExpectedFile> expected = ExpectedFile::Open(arguments.verify, InputBlockNames(request));
  if (!expected.ok()) {
    return absl::Status(expected.status().code(), Cat("--verify: ", std::string(expected.status().message())));
  }
  return std::make_unique<Verifier>(*std::move(expected), AskedFor(request));
}

// Tells a person at once what the server noticed: it may be a reason to end the run.
class NoticePrinter : public RowReceiver {
 public:
  absl::Status OnLayout(const Layout& layout) override {
    for (const std::string& notice : layout.notices) std::fprintf(stderr, "jacserve: note: %s\n", notice.c_str());
    return absl::OkStatus();
  }
  absl::Status OnValue(int64_t, std::span<const std::byte>) override { return absl::OkStatus(); }
  absl::Status OnChunk(const ChunkData&) override { return absl::OkStatus(); }
  absl::Status OnRowsDone(RowRange) override { return absl::OkStatus(); }
};

// Where the rows of a run go.
struct Sinks {
  std::unique_ptr<ResultDirectory> directory;  // null: discarded
  std::unique_ptr<Verifier> verifier;          // null: not verified
  RowsWanted rows;
};

// Opens the folder, which belongs to a request for these rows.
absl::Status OpenDirectory(const JacobianArguments& arguments, const PreparedRequest& prepared, Sinks& sinks) {
  const std::optional<RowRange> rows = sinks.rows.range;
  if (arguments.out == "none") return absl::OkStatus();
  ASSIGN_OR_RETURN(sinks.directory, ResultDirectory::Open(arguments.out, Fingerprint(prepared.spec, rows), rows,
                                                          arguments.overwrite ? Replace::kResults : Replace::kNothing));
  if (sinks.directory->rows_before()) {
    sinks.rows.range = sinks.directory->rows_before();
    sinks.rows.done = sinks.directory->done_before();
  }
  return absl::OkStatus();
}

// Whether the folder holds the answer already. To be verified, or on demand, it is computed again.
bool IsComplete(const Sinks& sinks, const JacobianArguments& arguments) {
  return sinks.directory && sinks.directory->rows_finished() && !sinks.verifier && !arguments.overwrite;
}

void ReportComplete(const Sinks& sinks, const JacobianArguments& arguments, CommandOutput& output) {
  const int64_t rows = *sinks.directory->rows_finished();
  output.text = Cat("already complete: ", rows, " rows of this request are in ", arguments.out,
                    " (--overwrite computes them again)\n");
  output.json = {{"already_complete", true}, {"rows", rows}, {"out", arguments.out}};
}

// How many rows there are, only the server can tell: it is asked for none of them first.
absl::StatusOr<RowRange> AskForRows(const RowSlice& slice, const PreparedRequest& prepared, Client& client) {
  FanOut nobody;
  ASSIGN_OR_RETURN(const JacobianResult none, client.ComputeJacobian(prepared, {.range = RowRange{0, 0}}, nobody));
  return RowsOf(slice, none.layout.target_rows);
}

// Rows that are complete are kept whatever ended the run; the first error is the one to report.
absl::Status KeepWhatIsDone(Sinks& sinks, absl::Status status) {
  if (sinks.directory == nullptr) return status;
  const absl::Status saved = sinks.directory->Save();
  if (!saved.ok())
    return absl::Status(status.code(), Cat(std::string(status.message()), "; also: ", std::string(saved.message())));
  return status;
}

// All rows into the sinks, and figures of how that went into the report.
absl::Status ComputeInto(Sinks& sinks, const PreparedRequest& prepared, Session& session, Stopwatch& watch,
                         JacobianReport& report) {
  report.rows_before = sinks.rows.done.count();
  ProgressBar progress(::isatty(STDERR_FILENO) == 1, report.rows_before);
  NoticePrinter notices;
  FanOut receivers;
  receivers.Add(&notices);
  if (sinks.directory) receivers.Add(sinks.directory.get());
  if (sinks.verifier) receivers.Add(sinks.verifier.get());
  receivers.Add(&progress);
  absl::StatusOr<JacobianResult> result = session.client().ComputeJacobian(prepared, sinks.rows, receivers);
  progress.Clear();
  if (!result.ok()) return KeepWhatIsDone(sinks, session.Explain(result.status()));
  report.result = *std::move(result);
  report.phases.emplace_back("wait for first", report.result.seconds_to_header);
  report.phases.emplace_back("rows", watch.Lap() - report.result.seconds_to_header);

  if (sinks.directory && sinks.verifier) RETURN_IF_ERROR(sinks.directory->Replay(*sinks.verifier));
  if (sinks.verifier) report.verdicts = sinks.verifier->Verdicts();
  if (sinks.directory) {
    RETURN_IF_ERROR(sinks.directory->Finish());
    report.phases.emplace_back("finish files", watch.Lap());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunJacobian(const Options& options, const std::stop_source& stop, CommandOutput& output) {
  Stopwatch watch;
  JacobianReport report;
  const auto lap = [&](const char* phase) { report.phases.emplace_back(phase, watch.Lap()); };
  ASSIGN_OR_RETURN(const JacobianRequest request, LoadRequest(options.jacobian));
  ASSIGN_OR_RETURN(const PreparedRequest prepared, Prepare(request));
  const std::optional<RowSlice>& slice = options.jacobian.rows;
  Sinks sinks;
  ASSIGN_OR_RETURN(sinks.verifier, MakeVerifier(options.jacobian, request));
  if (slice) sinks.rows.range = KnownRows(*slice);
  const bool rows_known = !slice || sinks.rows.range;
  if (rows_known) RETURN_IF_ERROR(OpenDirectory(options.jacobian, prepared, sinks));
  if (IsComplete(sinks, options.jacobian)) {
    ReportComplete(sinks, options.jacobian, output);
    return absl::OkStatus();
  }
  lap("read files");
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Open(options.server, stop));
  lap("connect");
  const absl::StatusOr<UploadReport> uploaded = session->client().UploadMissing(prepared.blobs);
  if (!uploaded.ok()) return session->Explain(uploaded.status());
  lap("upload");
  if (!rows_known) {
    const absl::StatusOr<RowRange> rows = AskForRows(*slice, prepared, session->client());
    if (!rows.ok()) return session->Explain(rows.status());
    sinks.rows.range = *rows;
    RETURN_IF_ERROR(OpenDirectory(options.jacobian, prepared, sinks));
    if (IsComplete(sinks, options.jacobian)) {
      ReportComplete(sinks, options.jacobian, output);
      return absl::OkStatus();
    }
    lap("count rows");
  }
  RETURN_IF_ERROR(ComputeInto(sinks, prepared, *session, watch, report));
  if (sinks.directory) report.out = options.jacobian.out;
  report.seconds = watch.Total();
  const std::string nonfinite = NonFiniteText(report);
  if (!nonfinite.empty()) std::fprintf(stderr, "jacserve: note: %s\n", nonfinite.c_str());
  output.text = ReportText(report);
  output.json = ReportJson(report);
  if (report.verdicts && !AllRight(*report.verdicts)) {
    output.verification_failed = true;
    return absl::DataLossError(VerificationFailure(*report.verdicts));
  }
  return absl::OkStatus();
}

}  // namespace jacserve::client
