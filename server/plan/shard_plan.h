// Rows into shards: pure arithmetic.
// In: the ranges of rows still wanted, what a row costs, how many workers. Out: shards in the order to hand them out.
#pragma once

#include <cstdint>
#include <vector>

#include "common/row_range.h"

namespace jacserve::server {

// A shard worth a call of its own: about 10 ms of work on one core, whichever of arithmetic and writing takes longer.
constexpr double kWorthwhileFlops = 1e9;
constexpr int64_t kWorthwhileBytes = int64_t{32} << 20;

struct PlanInput {
  std::vector<RowRange> missing;  // disjoint, in order
  int64_t row_tile = 1;           // >= 1; rows computed together, counted from row 0
  int64_t workers = 1;            // >= 1
  int64_t row_bytes = 0;          // of all connected blocks
  double flops_per_row = 0;
};

// Covers `missing` exactly, each row once. Shards begin large and shrink, so that no worker idles for long at the end
// and a small number of them carries most rows. Every cut within a range lies on a multiple of row_tile.
std::vector<RowRange> PlanShards(const PlanInput& input);

}  // namespace jacserve::server
