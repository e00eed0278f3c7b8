// Runs the engine on a case folder, in one process, and drops the rows.
#pragma once

#include "tests/worker/engine/golden_case.h"

namespace jacserve::bench {

struct EngineRun {
  double seconds = 0;
  int64_t bytes = 0;
  worker::Effort effort;  // summed over threads
};

// Compiles, then times the computation of `rows`, within a budget of 512 MiB. Prints a line to stderr.
EngineRun RunEngine(const worker::GoldenCase& golden, int threads, RowRange rows);
RowRange AllRows(const worker::GoldenCase& golden);

}  // namespace jacserve::bench
