#include "common/row_range.h"

#include <algorithm>

namespace jacserve {

void RowSet::Add(RowRange range) {
  if (range.count <= 0) return;
  int64_t begin = range.begin;
  int64_t end = range.end();
  auto it = end_by_begin_.upper_bound(begin);
  if (it != end_by_begin_.begin() && std::prev(it)->second >= begin) --it;
  while (it != end_by_begin_.end() && it->first <= end) {
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    count_ -= it->second - it->first;
    it = end_by_begin_.erase(it);
  }
  end_by_begin_[begin] = end;
  count_ += end - begin;
}

bool RowSet::Contains(RowRange range) const { return MissingFrom(range).empty(); }

std::vector<RowRange> RowSet::MissingFrom(RowRange range) const {
  std::vector<RowRange> missing;
  int64_t next = range.begin;
  auto it = end_by_begin_.upper_bound(next);
  if (it != end_by_begin_.begin()) --it;
  for (; it != end_by_begin_.end() && it->first < range.end(); ++it) {
    if (it->first > next) missing.push_back({next, it->first - next});
    next = std::max(next, it->second);
  }
  if (next < range.end()) missing.push_back({next, range.end() - next});
  return missing;
}

std::vector<RowRange> RowSet::Ranges() const {
  std::vector<RowRange> ranges;
  for (const auto& [begin, end] : end_by_begin_) ranges.push_back({begin, end - begin});
  return ranges;
}

}  // namespace jacserve
