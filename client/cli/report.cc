#include "client/cli/report.h"

#include <cmath>
#include <cstdio>

#include "client/cli/table.h"
#include "client/cpp/text.h"
#include "common/process.h"
#include "common/size_text.h"

namespace jacserve::client {
namespace {

using nlohmann::ordered_json;

int64_t ResultBytes(const JacobianReport& report) {
  return report.result.layout.rows.count * report.result.layout.row_bytes();
}

std::string Fixed(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string_view NameOf(Verdict::Outcome outcome) {
  switch (outcome) {
    case Verdict::Outcome::kRight:
      return "ok";
    case Verdict::Outcome::kOff:
      return "off";
    case Verdict::Outcome::kNotAsked:
      return "not asked for";
  }
  return "";
}

ordered_json VerdictsJson(const std::vector<Verdict>& verdicts) {
  ordered_json blocks = ordered_json::array();
  for (const Verdict& verdict : verdicts) {
    ordered_json entry = {{"block", verdict.block}, {"outcome", NameOf(verdict.outcome)}};
    // JSON has no infinity: a NaN among the numbers leaves no error to state.
    entry["worst_error"] = std::isfinite(verdict.worst_error) ? ordered_json(verdict.worst_error) : ordered_json();
    entry["worst_in"] = verdict.figure;
    entry["tolerance"] = verdict.tolerance;
    if (!verdict.problem.empty()) entry["problem"] = verdict.problem;
    blocks.push_back(std::move(entry));
  }
  return {{"passed", AllRight(verdicts)}, {"blocks", std::move(blocks)}};
}

ordered_json ProcessesJson(const JacobianReport& report) {
  ordered_json processes = ordered_json::array();
  for (const v1::ProcessUsage& usage : report.result.summary.processes()) {
    processes.push_back({{"role", usage.role()}, {"name", usage.name()}, {"peak_rss_bytes", usage.peak_rss_bytes()}});
  }
  processes.push_back({{"role", "client"}, {"name", ""}, {"peak_rss_bytes", PeakRssBytes()}});
  return processes;
}

std::string VerdictsText(const std::vector<Verdict>& verdicts) {
  Table table;
  table.Add({"block", "worst error", "in", "allowed", ""});
  for (const Verdict& verdict : verdicts) {
    const bool compared = !verdict.figure.empty();
    table.Add({verdict.block, compared ? Fixed(verdict.worst_error, "%.1e") : "-", compared ? verdict.figure : "-",
               compared ? Fixed(verdict.tolerance, "%.0e") : "-",
               compared || verdict.problem.empty() ? std::string(NameOf(verdict.outcome))
                                                   : Cat(NameOf(verdict.outcome), ": ", verdict.problem)});
  }
  return table.Text();
}

}  // namespace

ordered_json ReportJson(const JacobianReport& report) {
  const JacobianResult& result = report.result;
  const Layout& layout = result.layout;
  ordered_json phases = ordered_json::object(), worker_phases = ordered_json::object();
  for (const auto& [name, seconds] : report.phases) phases[name] = seconds;
  for (const v1::PhaseSeconds& phase : result.summary.phases()) worker_phases[phase.phase()] = phase.seconds();
  ordered_json json = {
      {"rows", layout.rows.count},
      {"columns", layout.columns()},
      {"bytes", ResultBytes(report)},
      {"seconds", report.seconds},
      {"phases", std::move(phases)},
      {"worker_phases", std::move(worker_phases)},
      {"processes", ProcessesJson(report)},
      {"workers", layout.workers},
      {"backend", layout.backend},
      {"device", layout.device},
      {"precision", jacserve::client::NameOf(layout.precision)},
      {"underflows", result.summary.underflows()},
      {"overflows", result.summary.overflows()},
      {"target_shape", layout.target_shape},
      {"row_begin", layout.rows.begin},
      {"rows_from_earlier_run", report.rows_before},
      {"bytes_received", result.payload_bytes},
      {"resumes", result.resumes},
      {"shards", result.summary.shards()},
      {"shards_retried", result.summary.shards_retried()},
  };
  json["out"] = report.out.empty() ? ordered_json() : ordered_json(report.out);
  json["nonfinite_rows"] = report.result.nonfinite_rows;
  json["first_nonfinite"] =
      report.result.first_nonfinite
          ? ordered_json({{"row", report.result.first_nonfinite->row}, {"block", report.result.first_nonfinite->block}})
          : ordered_json();
  json["notices"] = layout.notices;
  json["verification"] = report.verdicts ? VerdictsJson(*report.verdicts) : ordered_json();
  return json;
}

std::string ReportText(const JacobianReport& report) {
  const JacobianResult& result = report.result;
  const Layout& layout = result.layout;
  Table table;
  table.Add({"jacobian", Cat(layout.rows.count, " rows x ", layout.columns(), " columns of a target ",
                             ShapeText(layout.target_shape), ", ", SizeText(ResultBytes(report)))});
  if (report.rows_before > 0) table.Add({"continued", Cat(report.rows_before, " rows were there from an earlier run")});
  const double rate = result.seconds > 0 ? static_cast<double>(result.payload_bytes) / result.seconds : 0;
  table.Add({"time", Cat(DurationText(report.seconds), ", rows at ", Fixed(rate / 1e9, "%.2f GB/s"))});
  for (const auto& [name, seconds] : report.phases) table.Add({Cat("  ", name), DurationText(seconds)});
  table.Add(
      {"computed by", Cat(layout.workers, layout.workers == 1 ? " worker" : " workers", ", backend ", layout.backend,
                          ", ", jacserve::client::NameOf(layout.precision), ", ", layout.device)});
  if (result.summary.underflows() + result.summary.overflows() > 0) {
    table.Add({"lost to rounding", Cat(result.summary.underflows(), " numbers became 0, ", result.summary.overflows(),
                                       " became infinite")});
  }
  if (result.resumes + result.summary.shards_retried() > 0) {
    table.Add({"repaired", Cat(result.resumes, " broken streams, ", result.summary.shards_retried(), " lost shards")});
  }
  for (const v1::ProcessUsage& usage : result.summary.processes()) {
    table.Add({Cat("peak memory, ", usage.role(), usage.name().empty() ? "" : " ", usage.name()),
               SizeText(usage.peak_rss_bytes())});
  }
  table.Add({"peak memory, client", SizeText(PeakRssBytes())});
  table.Add({"result", report.out.empty() ? std::string("discarded (--out none)") : Cat("in ", report.out)});
  std::string text = table.Text();
  if (report.verdicts) text += Cat("\n", VerdictsText(*report.verdicts));
  return text;
}

std::string NonFiniteText(const JacobianReport& report) {
  if (report.result.nonfinite_rows == 0) return "";
  return Cat(report.result.nonfinite_rows, " of ", report.result.layout.rows.count - report.rows_before,
             " rows hold NaN or infinity; the first: row ", report.result.first_nonfinite->row, ", block '",
             report.result.first_nonfinite->block, "'");
}

ordered_json ErrorJson(std::string_view code, std::string_view message) {
  return {{"code", std::string(code)}, {"message", std::string(message)}};
}

std::string JsonLine(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string VerificationFailure(const std::vector<Verdict>& verdicts) {
  int64_t off = 0;
  std::string first;
  for (const Verdict& verdict : verdicts) {
    if (verdict.outcome != Verdict::Outcome::kOff) continue;
    if (off++ == 0) first = Cat("'", verdict.block, "' ", verdict.problem);
  }
  if (off == 0) return "verification failed: the expected file holds nothing that was asked for";
  return Cat("verification failed: ", off, " of ", verdicts.size(), " arrays are off, the first: ", first);
}

}  // namespace jacserve::client
