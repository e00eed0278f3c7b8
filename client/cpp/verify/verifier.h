// Compares a Jacobian with an expected.npz while it streams by; no block is ever held.
// In: pieces of rows in any order, some perhaps twice. Out: a verdict per block.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/row_receiver.h"
#include "client/cpp/verify/expected_file.h"

namespace jacserve::client {

// Differences allowed, times the largest absolute expected value of the array (for norms, dots and sums of a block: of
// its norms when these are larger, because sums cancel).
constexpr double kToleranceFloat32 = 1e-4;
constexpr double kToleranceFloat64 = 1e-9;

struct Verdict {
  enum class Outcome { kRight, kOff, kNotAsked };
  std::string block;       // or "value"
  std::string figure;      // the array that came out worst: "whole", "norm", "dot", "sum", "row 12"
  double worst_error = 0;  // over the scale above
  double tolerance = 0;
  Outcome outcome = Outcome::kOff;
  std::string problem;  // when off: why, in words
};

class BlockVerifier;

class Verifier : public RowReceiver {
 public:
  // `asked`: whether a block belongs to the request; one that does not is not missed.
  Verifier(ExpectedFile expected, std::function<bool(const std::string&)> asked);
  ~Verifier() override;

  // An expected array of another shape than the answer's is a verdict, not an error. Errors: ExpectedFile::Read.
  absl::Status OnLayout(const Layout& layout) override;
  absl::Status OnValue(int64_t element_begin, std::span<const std::byte> data) override;
  absl::Status OnChunk(const ChunkData& chunk) override;
  absl::Status OnRowsDone(RowRange) override { return absl::OkStatus(); }

  // After the last row: the value first, then blocks in the answer's order, then those that are missing from it.
  std::vector<Verdict> Verdicts() const;

 private:
  ExpectedFile expected_;
  std::function<bool(const std::string&)> asked_;
  int64_t value_element_bytes_ = 0;
  std::unique_ptr<BlockVerifier> value_;                // null: no value is expected
  std::vector<std::unique_ptr<BlockVerifier>> blocks_;  // by the block's index; null: nothing is expected of it
  std::vector<Verdict> settled_;                        // known before any row: missing blocks
};

// Nothing is off, and something was compared.
bool AllRight(const std::vector<Verdict>& verdicts);

}  // namespace jacserve::client
