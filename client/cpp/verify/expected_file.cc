#include "client/cpp/verify/expected_file.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "client/cpp/text.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

struct Figure {
  std::string kind;  // "norm", "dot", "sum" or "row"
  int64_t row = 0;
  std::string block;
};

// "norm/B" and its like, or nothing.
std::optional<Figure> FigureOf(const std::string& name) {
  Figure figure;
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return std::nullopt;
  figure.kind = name.substr(0, slash);
  figure.block = name.substr(slash + 1);
  if (figure.kind == "norm" || figure.kind == "dot" || figure.kind == "sum") return figure;
  if (figure.kind != "row") return std::nullopt;
  const size_t second = figure.block.find('/');
  if (second == std::string::npos || !absl::SimpleAtoi(figure.block.substr(0, second), &figure.row))
    return std::nullopt;
  figure.block = figure.block.substr(second + 1);
  return figure;
}

}  // namespace

absl::StatusOr<ExpectedFile> ExpectedFile::Open(const std::string& path, const std::vector<std::string>& input_blocks) {
  ASSIGN_OR_RETURN(NpzFile file, NpzFile::Open(path));
  ExpectedFile expected(std::move(file));
  std::vector<std::string> names = expected.file_.names();
  std::erase(names, "value");
  if (names.empty() && !expected.has_value()) {
    return absl::InvalidArgumentError(Cat(path, ": holds no arrays to compare with"));
  }
  // A parameter may be called "norm/scale": only a file in which every name is a figure's is read as figures.
  const bool figures =
      std::all_of(names.begin(), names.end(), [](const auto& name) { return FigureOf(name).has_value(); });
  for (const std::string& name : names) {
    if (figures) {
      const Figure figure = *FigureOf(name);
      ExpectedBlock& block = expected.blocks_[figure.block];
      if (figure.kind == "norm") block.norm = name;
      if (figure.kind == "dot") block.dot = name;
      if (figure.kind == "sum") block.sum = name;
      if (figure.kind == "row") block.rows[figure.row] = name;
      continue;
    }
    std::string block = name;
    size_t index = 0;
    if (name.starts_with("input:") && absl::SimpleAtoi(name.substr(6), &index)) {
      if (index >= input_blocks.size()) {
        return absl::InvalidArgumentError(Cat(path, ": holds '", name, "', but the request has only ",
                                              input_blocks.size(), " batches of inputs (counted from 0)"));
      }
      block = input_blocks[index];
    }
    expected.blocks_[block].whole = name;
  }
  return expected;
}

absl::StatusOr<Array> ExpectedFile::Read(const std::string& name) const {
  ASSIGN_OR_RETURN(Array array, file_.Read(name));
  if (IsFloat(array.dtype)) return array;
  return absl::InvalidArgumentError(Cat("expected array '", name, "' holds ", NameOf(array.dtype), ", not floats"));
}

}  // namespace jacserve::client
