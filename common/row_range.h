// Half-open ranges of rows and sets of them: what is done, what is still missing.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace jacserve {

struct RowRange {
  int64_t begin = 0;
  int64_t count = 0;

  int64_t end() const { return begin + count; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// A set of rows, kept as disjoint ranges in order. Adding a row twice does no harm.
class RowSet {
 public:
  void Add(RowRange range);
  int64_t count() const { return count_; }
  bool Contains(RowRange range) const;

  // The rows of `range` that are not in the set, in order.
  std::vector<RowRange> MissingFrom(RowRange range) const;
  std::vector<RowRange> Ranges() const;

 private:
  std::map<int64_t, int64_t> end_by_begin_;
  int64_t count_ = 0;
};

}  // namespace jacserve
