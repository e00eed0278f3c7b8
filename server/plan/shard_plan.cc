#include "server/plan/shard_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace jacserve::server {
namespace {

// A shard takes this part of the fair share of what is left, so the ones at the end are small.
constexpr int64_t kShareDivisor = 3;
// Bounds the number of shards when rows are many and cheap.
constexpr int64_t kMostShardsPerWorker = 256;

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// Rows that make a shard worthwhile; `total` when even all of them do not.
int64_t WorthwhileRows(const PlanInput& input, int64_t total) {
  const double shards =
      std::max(input.flops_per_row / kWorthwhileFlops, static_cast<double>(input.row_bytes) / kWorthwhileBytes);
  if (!(shards > 0)) return total;  // nothing is known, or rows cost nothing
  const double rows = std::ceil(1.0 / shards);
  return rows >= static_cast<double>(total) ? total : std::max<int64_t>(1, static_cast<int64_t>(rows));
}

}  // namespace

std::vector<RowRange> PlanShards(const PlanInput& input) {
  const int64_t tile = std::max<int64_t>(input.row_tile, 1);
  const int64_t workers = std::max<int64_t>(input.workers, 1);
  int64_t left = 0;
  for (const RowRange& range : input.missing) left += range.count;
  const int64_t smallest =
      std::max(WorthwhileRows(input, left), left / std::min(workers * kMostShardsPerWorker, int64_t{100'000}));

  std::vector<RowRange> shards;
  for (RowRange rest : input.missing) {
    while (rest.count > 0) {
      const int64_t share = CeilDiv(left, workers) / kShareDivisor;
      const int64_t wanted = std::max({smallest, share, int64_t{1}});
      int64_t end = rest.end();
      if (wanted < rest.count) {
        const int64_t over = (rest.begin + wanted) % tile;  // up to the next edge of a tile
        const int64_t step = over == 0 ? wanted : wanted + (tile - over);
        // A remainder smaller than a worthwhile shard is not left behind.
        if (step < rest.count && rest.count - step >= std::min(smallest, wanted) / 2) end = rest.begin + step;
      }
      const int64_t count = end - rest.begin;
      shards.push_back({rest.begin, count});
      rest = {end, rest.count - count};
      left -= count;
    }
  }
  return shards;
}

}  // namespace jacserve::server
