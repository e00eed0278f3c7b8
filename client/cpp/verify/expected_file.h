// An expected.npz: what a Jacobian should be, whole or as figures of its rows.
// In: the archive. Out: for each block what is expected of it; arrays are read when they are asked for.
//
// Whole: `value`, under each block's name its Jacobian of shape target.shape + parameter.shape; `input:K` is the K-th
// block of the inputs. Figures: `norm/B`, `dot/B`, `sum/B` per row of block B, and `row/R/B`, row R of it in full.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/array_io/npz.h"

namespace jacserve::client {

struct ExpectedBlock {
  std::string whole;  // each: the array's name in the archive, empty when there is none
  std::string norm, dot, sum;
  std::map<int64_t, std::string> rows;  // by row number
};

class ExpectedFile {
 public:
  // `input_blocks`: the blocks that `input:0`, `input:1`, ... stand for. InvalidArgument: no such file, or an `input:K`
  // beyond them. Further errors as of NpzFile::Open.
  static absl::StatusOr<ExpectedFile> Open(const std::string& path, const std::vector<std::string>& input_blocks);

  bool has_value() const { return file_.Has("value"); }
  const std::map<std::string, ExpectedBlock>& blocks() const { return blocks_; }

  // InvalidArgument: not float32 or float64. Further errors as of NpzFile::Read.
  absl::StatusOr<Array> Read(const std::string& name) const;

 private:
  explicit ExpectedFile(NpzFile file) : file_(std::move(file)) {}

  NpzFile file_;
  std::map<std::string, ExpectedBlock> blocks_;
};

}  // namespace jacserve::client
