// What an interrupted run left behind: which rows of which request are safely in the part files.
// In: the folder of part files. Out: the record, written whole or not at all.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/row_range.h"

namespace jacserve::client {

struct Progress {
  std::string fingerprint;                    // of the request
  RowRange rows;                              // wanted
  RowSet done;                                // complete and durable in every part file
  std::map<std::string, int64_t> file_bytes;  // part files and their sizes
};

// Nothing when there is no record, when it cannot be read, or when a part file is not as it says: then all is done
// anew.
std::optional<Progress> ReadProgress(const std::string& folder);

// ResourceExhausted: disk full.
absl::Status WriteProgress(const std::string& folder, const Progress& progress);

}  // namespace jacserve::client
