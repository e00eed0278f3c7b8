#include "client/cpp/verify/verifier.h"

#include <algorithm>
#include <set>

#include "client/cpp/text.h"
#include "client/cpp/verify/block_verifier.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

absl::StatusOr<std::optional<Array>> ReadIfNamed(const ExpectedFile& file, const std::string& name) {
  if (name.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(Array array, file.Read(name));
  return array;
}

// Whether an array holds zeros alone: what a framework writes for a parameter that the target does not reach.
absl::StatusOr<bool> IsZero(const ExpectedFile& file, const ExpectedBlock& block) {
  for (const std::string& name : {block.whole, block.norm}) {
    if (name.empty()) continue;
    ASSIGN_OR_RETURN(Array array, file.Read(name));
    if (Comparison(std::move(array)).scale() > 0) return false;
  }
  return true;
}

Verdict Off(std::string block, std::string problem) {
  Verdict verdict;
  verdict.block = std::move(block);
  verdict.problem = std::move(problem);
  return verdict;
}

absl::StatusOr<std::unique_ptr<BlockVerifier>> MakeBlock(const ExpectedFile& file, const ExpectedBlock& expected,
                                                         const BlockLayout& block, const Layout& layout) {
  auto verifier = std::make_unique<BlockVerifier>(block, layout.target_shape, layout.rows);
  ASSIGN_OR_RETURN(std::optional<Array> whole, ReadIfNamed(file, expected.whole));
  if (whole) verifier->ExpectWhole(*std::move(whole));
  ASSIGN_OR_RETURN(std::optional<Array> norm, ReadIfNamed(file, expected.norm));
  ASSIGN_OR_RETURN(std::optional<Array> dot, ReadIfNamed(file, expected.dot));
  ASSIGN_OR_RETURN(std::optional<Array> sum, ReadIfNamed(file, expected.sum));
  verifier->ExpectFigures(std::move(norm), std::move(dot), std::move(sum));
  for (const auto& [row, name] : expected.rows) {
    ASSIGN_OR_RETURN(Array values, file.Read(name));
    verifier->ExpectRow(row, std::move(values));
  }
  return verifier;
}

}  // namespace

Verifier::Verifier(ExpectedFile expected, std::function<bool(const std::string&)> asked)
    : expected_(std::move(expected)), asked_(std::move(asked)) {}
Verifier::~Verifier() = default;

absl::Status Verifier::OnLayout(const Layout& layout) {
  value_element_bytes_ = SizeOf(layout.value_dtype);
  if (expected_.has_value()) {
    // The value is like a block with one number a row, except that it always comes whole.
    BlockLayout value{"value", {}, layout.value_dtype, true, value_element_bytes_};
    value_ = std::make_unique<BlockVerifier>(std::move(value), layout.target_shape, RowRange{0, layout.target_rows});
    ASSIGN_OR_RETURN(Array array, expected_.Read("value"));
    value_->ExpectWhole(std::move(array));
  }
  std::set<std::string> present;
  for (const BlockLayout& block : layout.blocks) {
    present.insert(block.name);
    blocks_.emplace_back();
    const auto found = expected_.blocks().find(block.name);
    if (found == expected_.blocks().end()) continue;
    if (block.connected) {
      ASSIGN_OR_RETURN(blocks_.back(), MakeBlock(expected_, found->second, block, layout));
      continue;
    }
    ASSIGN_OR_RETURN(const bool zero, IsZero(expected_, found->second));
    if (!zero) settled_.push_back(Off(block.name, "is reported unconnected, expected are numbers"));
  }
  for (const auto& [name, block] : expected_.blocks()) {
    if (present.contains(name)) continue;
    Verdict verdict = Off(name, "is missing from the answer");
    if (!asked_(name)) {
      verdict.outcome = Verdict::Outcome::kNotAsked;
      verdict.problem.clear();
    }
    settled_.push_back(std::move(verdict));
  }
  return absl::OkStatus();
}

absl::Status Verifier::OnValue(int64_t element_begin, std::span<const std::byte> data) {
  if (value_ != nullptr) {
    value_->Add(element_begin * value_element_bytes_, static_cast<int64_t>(data.size()), Pieces(&data, 1));
  }
  return absl::OkStatus();
}

absl::Status Verifier::OnChunk(const ChunkData& chunk) {
  BlockVerifier* block = blocks_[chunk.block].get();
  if (block != nullptr) block->Add(chunk.byte_begin, chunk.bytes, chunk.pieces);
  return absl::OkStatus();
}

std::vector<Verdict> Verifier::Verdicts() const {
  std::vector<Verdict> verdicts;
  if (value_ != nullptr) verdicts.push_back(value_->Judge());
  for (const auto& block : blocks_) {
    if (block != nullptr) verdicts.push_back(block->Judge());
  }
  verdicts.insert(verdicts.end(), settled_.begin(), settled_.end());
  return verdicts;
}

bool AllRight(const std::vector<Verdict>& verdicts) {
  const auto is = [](Verdict::Outcome outcome) { return [=](const Verdict& one) { return one.outcome == outcome; }; };
  return std::any_of(verdicts.begin(), verdicts.end(), is(Verdict::Outcome::kRight)) &&
         std::none_of(verdicts.begin(), verdicts.end(), is(Verdict::Outcome::kOff));
}

}  // namespace jacserve::client
