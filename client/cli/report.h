// What a finished run is reported as. In: figures of the run. Out: a table for people, or JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/client.h"
#include "client/cpp/verify/verifier.h"
#include "nlohmann/json.hpp"

namespace jacserve::client {

struct JacobianReport {
  JacobianResult result;
  std::vector<std::pair<std::string, double>> phases;  // name and wall seconds, on this side, in order
  double seconds = 0;                                  // of the whole command
  int64_t rows_before = 0;                             // left by an earlier run
  std::string out;                                     // folder; empty: rows were discarded
  std::optional<std::vector<Verdict>> verdicts;
};

nlohmann::ordered_json ReportJson(const JacobianReport& report);
std::string ReportText(const JacobianReport& report);

// "3 of 3136 rows hold NaN or infinity; ..."; empty when none does.
std::string NonFiniteText(const JacobianReport& report);

// {"code": "INVALID_ARGUMENT", "message": ...}
nlohmann::ordered_json ErrorJson(std::string_view code, std::string_view message);

// One line of JSON, whatever bytes the texts hold.
std::string JsonLine(const nlohmann::ordered_json& value);

// "3 of 12 blocks are off: ...", for the error of a failed verification.
std::string VerificationFailure(const std::vector<Verdict>& verdicts);

}  // namespace jacserve::client
