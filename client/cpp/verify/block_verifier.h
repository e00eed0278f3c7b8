// Compares the rows of one block with what is expected of them.
// In: pieces of the block in any order, some perhaps twice. Out: one verdict.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/row_receiver.h"
#include "client/cpp/verify/comparison.h"
#include "client/cpp/verify/running_figures.h"
#include "client/cpp/verify/verifier.h"

namespace jacserve::client {

class BlockVerifier {
 public:
  // Rows `rows` of a block that has `target_rows` rows of shape block.shape.
  BlockVerifier(BlockLayout block, Shape target_shape, RowRange rows);

  // What is expected. An array of a wrong shape settles the verdict.
  void ExpectWhole(Array whole);  // target.shape + block.shape
  void ExpectFigures(std::optional<Array> norm, std::optional<Array> dot, std::optional<Array> sum);  // per target row
  void ExpectRow(int64_t row, Array values);  // block.shape; left out when the row is not among `rows`

  // Bytes [byte_begin, byte_begin + bytes) of the block seen as one array; those seen before are passed over.
  void Add(int64_t byte_begin, int64_t bytes, Pieces pieces);

  Verdict Judge() const;

 private:
  struct PieceCursor;

  void AddFresh(RowRange bytes, PieceCursor& cursor);
  void AddRun(int64_t element, std::span<const double> values);
  void Settle(std::string problem);
  void JudgeFigures(const std::optional<Comparison>& expected, const char* figure,
                    double (RunningFigures::*actual)(int64_t) const, Verdict& verdict) const;
  void Consider(const Comparison& comparison, std::string figure, Verdict& verdict) const;

  BlockLayout block_;
  Shape target_shape_;
  RowRange rows_;
  int64_t columns_ = 0;
  double tolerance_ = 0;
  std::string problem_;
  std::optional<Comparison> whole_;
  std::optional<RunningFigures> figures_;
  std::optional<Comparison> norm_, dot_, sum_;
  std::map<int64_t, Comparison> single_rows_;
  RowSet bytes_seen_;
};

}  // namespace jacserve::client
