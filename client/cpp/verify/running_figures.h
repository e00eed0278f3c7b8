// Figures of the rows of one block, summed up while pieces of rows arrive in any order.
// In: runs of numbers by row and column. Out: per row the 2-norm, the dot product with v_k = sin(0.7 k + 1), the sum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace jacserve::client {

// Longest run that RunningFigures::Add takes: it and the tables fit the first-level cache.
constexpr int64_t kLongestRun = 1024;

// A NaN or an infinity among a row's numbers makes its figures NaN or infinite.
class RunningFigures {
 public:
  explicit RunningFigures(int64_t rows) : squares_(rows), dots_(rows), sums_(rows) {}

  // values: columns [column_begin, column_begin + values.size()) of `row`; at most kLongestRun of them, each column of
  // a row once. The sine of a run's columns comes from tables by sin(a + b) = sin a cos b + cos a sin b, so that no
  // table as long as a row is read.
  void Add(int64_t row, int64_t column_begin, std::span<const double> values);

  double norm(int64_t row) const;
  double dot(int64_t row) const { return dots_[row]; }
  double sum(int64_t row) const { return sums_[row]; }

 private:
  std::vector<double> squares_;
  std::vector<double> dots_;
  std::vector<double> sums_;
};

void ToDoubles(std::span<const float> in, double* out);

}  // namespace jacserve::client
