#include "client/cpp/verify/block_verifier.h"

#include <array>
#include <cstring>

#include "client/cpp/text.h"

namespace jacserve::client {

// Reads forward through pieces that are cut anywhere.
struct BlockVerifier::PieceCursor {
  Pieces pieces;
  size_t piece = 0;
  size_t offset = 0;  // within the piece

  // Copies `size` bytes to `out`, or passes over them when `out` is null.
  void Take(int64_t size, std::byte* out) {
    while (size > 0) {
      const std::span<const std::byte> rest = pieces[piece].subspan(offset);
      const size_t step = std::min(rest.size(), static_cast<size_t>(size));
      if (out != nullptr) {
        std::memcpy(out, rest.data(), step);
        out += step;
      }
      size -= static_cast<int64_t>(step);
      offset += step;
      if (step == rest.size()) {
        ++piece;
        offset = 0;
      }
    }
  }
};

BlockVerifier::BlockVerifier(BlockLayout block, Shape target_shape, RowRange rows)
    : block_(std::move(block)),
      target_shape_(std::move(target_shape)),
      rows_(rows),
      columns_(Elements(block_.shape)),
      tolerance_(block_.dtype == DType::kFloat64 ? kToleranceFloat64 : kToleranceFloat32) {}

void BlockVerifier::Settle(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
}

void BlockVerifier::ExpectWhole(Array whole) {
  Shape shape = target_shape_;
  shape.insert(shape.end(), block_.shape.begin(), block_.shape.end());
  if (whole.shape != shape) {
    return Settle(Cat("has shape ", ShapeText(shape), ", expected ", ShapeText(whole.shape)));
  }
  whole_.emplace(std::move(whole));
}

void BlockVerifier::ExpectFigures(std::optional<Array> norm, std::optional<Array> dot, std::optional<Array> sum) {
  const int64_t rows = Elements(target_shape_);
  for (const auto* figure : {&norm, &dot, &sum}) {
    if (*figure && Elements((*figure)->shape) != rows) {
      return Settle(Cat("has ", rows, " rows, expected ", ShapeText((*figure)->shape)));
    }
  }
  if (norm) norm_.emplace(*std::move(norm));
  const double scale = norm_ ? norm_->scale() : 0.0;
  if (dot) dot_.emplace(*std::move(dot), scale);
  if (sum) sum_.emplace(*std::move(sum), scale);
  if (norm_ || dot_ || sum_) figures_.emplace(rows_.count);
}

void BlockVerifier::ExpectRow(int64_t row, Array values) {
  if (row < rows_.begin || row >= rows_.end()) return;
  if (Elements(values.shape) != columns_) {
    return Settle(Cat("row ", row, " has shape ", ShapeText(block_.shape), ", expected ", ShapeText(values.shape)));
  }
  single_rows_.emplace(row, Comparison(std::move(values)));
}

void BlockVerifier::Add(int64_t byte_begin, int64_t bytes, Pieces pieces) {
  PieceCursor cursor{pieces};
  int64_t at = byte_begin;
  for (const RowRange& fresh : bytes_seen_.MissingFrom({byte_begin, bytes})) {
    cursor.Take(fresh.begin - at, nullptr);
    AddFresh(fresh, cursor);
    at = fresh.end();
  }
  bytes_seen_.Add({byte_begin, bytes});
}

void BlockVerifier::AddFresh(RowRange bytes, PieceCursor& cursor) {
  std::array<double, kLongestRun> values;
  std::array<float, kLongestRun> floats;
  const int64_t element_bytes = SizeOf(block_.dtype);
  int64_t element = bytes.begin / element_bytes;
  const int64_t end = bytes.end() / element_bytes;
  while (element < end) {
    const int64_t to_row_end = columns_ - element % columns_;
    const int64_t run = std::min({kLongestRun, to_row_end, end - element});
    if (block_.dtype == DType::kFloat64) {
      cursor.Take(run * element_bytes, reinterpret_cast<std::byte*>(values.data()));
    } else {
      cursor.Take(run * element_bytes, reinterpret_cast<std::byte*>(floats.data()));
      ToDoubles(std::span<const float>(floats.data(), static_cast<size_t>(run)), values.data());
    }
    AddRun(element, std::span<const double>(values.data(), static_cast<size_t>(run)));
    element += run;
  }
}

// A run within one row; `element` counts from the beginning of the target's first row.
void BlockVerifier::AddRun(int64_t element, std::span<const double> values) {
  const int64_t row = element / columns_;
  const int64_t column = element % columns_;
  if (whole_) whole_->Compare(element, values);
  if (figures_) figures_->Add(row - rows_.begin, column, values);
  if (single_rows_.empty()) return;
  if (const auto found = single_rows_.find(row); found != single_rows_.end()) found->second.Compare(column, values);
}

void BlockVerifier::Consider(const Comparison& comparison, std::string figure, Verdict& verdict) const {
  const bool passes = comparison.Passes(tolerance_);
  if (verdict.figure.empty() || comparison.worst() > verdict.worst_error) {
    verdict.worst_error = comparison.worst();
    verdict.figure = std::move(figure);
  }
  if (!passes) verdict.outcome = Verdict::Outcome::kOff;
}

void BlockVerifier::JudgeFigures(const std::optional<Comparison>& expected, const char* figure,
                                 double (RunningFigures::*actual)(int64_t) const, Verdict& verdict) const {
  if (!expected) return;
  Comparison comparison = *expected;
  for (int64_t i = 0; i < rows_.count; ++i) {
    const double value = (*figures_.*actual)(i);
    comparison.Compare(rows_.begin + i, std::span<const double>(&value, 1));
  }
  Consider(comparison, figure, verdict);
}

Verdict BlockVerifier::Judge() const {
  Verdict verdict;
  verdict.block = block_.name;
  verdict.tolerance = tolerance_;
  if (!problem_.empty()) {
    verdict.problem = problem_;
    return verdict;
  }
  if (!bytes_seen_.Contains({rows_.begin * block_.row_bytes, rows_.count * block_.row_bytes})) {
    verdict.problem = "parts of it never came";
    return verdict;
  }
  verdict.outcome = Verdict::Outcome::kRight;
  if (whole_) Consider(*whole_, "whole", verdict);
  JudgeFigures(norm_, "norm", &RunningFigures::norm, verdict);
  JudgeFigures(dot_, "dot", &RunningFigures::dot, verdict);
  JudgeFigures(sum_, "sum", &RunningFigures::sum, verdict);
  for (const auto& [row, comparison] : single_rows_) Consider(comparison, Cat("row ", row), verdict);
  if (verdict.outcome == Verdict::Outcome::kOff) {
    verdict.problem = Cat("differs by ", verdict.worst_error, " of its largest value (", verdict.figure,
                          "), allowed is ", tolerance_);
  }
  return verdict;
}

}  // namespace jacserve::client
