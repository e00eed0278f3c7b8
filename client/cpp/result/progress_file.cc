#include "client/cpp/result/progress_file.h"

#include <filesystem>

#include "client/cpp/array_io/file_bytes.h"
#include "client/cpp/text.h"
#include "common/status.h"
#include "nlohmann/json.hpp"

namespace jacserve::client {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr int64_t kMaxBytes = int64_t{64} << 20;

std::string PathIn(const std::string& folder) { return Cat(folder, "/progress.json"); }

// [begin, count], or nothing.
std::optional<RowRange> RangeOf(const json& pair) {
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer() || !pair[1].is_number_integer()) return {};
  const RowRange range{pair[0].get<int64_t>(), pair[1].get<int64_t>()};
  int64_t end = 0;
  if (range.begin < 0 || range.count < 0 || __builtin_add_overflow(range.begin, range.count, &end)) return {};
  return range;
}

std::optional<Progress> FromJson(const json& record) {
  if (!record.is_object() || record.value("format", json()) != kFormat) return std::nullopt;
  const json fingerprint = record.value("fingerprint", json()), done = record.value("done", json()),
             files = record.value("files", json());
  const std::optional<RowRange> rows = RangeOf(record.value("rows", json()));
  if (!fingerprint.is_string() || !rows || !done.is_array() || !files.is_object()) return std::nullopt;
  Progress progress;
  progress.fingerprint = fingerprint.get<std::string>();
  progress.rows = *rows;
  for (const json& pair : done) {
    const std::optional<RowRange> range = RangeOf(pair);
    if (!range || range->begin < rows->begin || range->end() > rows->end()) return std::nullopt;
    progress.done.Add(*range);
  }
  for (const auto& [name, size] : files.items()) {
    if (!size.is_number_integer()) return std::nullopt;
    progress.file_bytes[name] = size.get<int64_t>();
  }
  return progress;
}

}  // namespace

std::optional<Progress> ReadProgress(const std::string& folder) {
  const absl::StatusOr<FileBytes> file = ReadFileBytes(PathIn(folder), kMaxBytes);
  if (!file.ok()) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(file->bytes.data());
  std::optional<Progress> progress =
      FromJson(json::parse(text, text + file->bytes.size(), nullptr, /*allow_exceptions=*/false));
  if (!progress) return std::nullopt;
  for (const auto& [name, size] : progress->file_bytes) {
    std::error_code error;
    const auto found = std::filesystem::file_size(Cat(folder, "/", name), error);
    if (error || static_cast<int64_t>(found) != size) return std::nullopt;
  }
  return progress;
}

absl::Status WriteProgress(const std::string& folder, const Progress& progress) {
  json done = json::array();
  for (const RowRange& range : progress.done.Ranges()) done.push_back({range.begin, range.count});
  const json record = {{"format", kFormat},
                       {"fingerprint", progress.fingerprint},
                       {"rows", {progress.rows.begin, progress.rows.count}},
                       {"done", std::move(done)},
                       {"files", progress.file_bytes}};
  return WriteFileAtomically(PathIn(folder), record.dump());
}

}  // namespace jacserve::client
