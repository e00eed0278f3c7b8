// The engine on case folders below $JACSERVE_GOLDEN, in one process, no wire.
// usage: net_bench THREADS NAME ...; prints a JSON object of {"seconds", "bytes", phases} a line, the best of 3 runs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "bench/run_engine.h"
#include "common/process.h"

int main(int argc, char** argv) {
  jacserve::TuneAllocator();
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  for (int k = 2; k < argc; ++k) {
    const auto golden = jacserve::worker::LoadGoldenCase(argv[k], /*with_expected=*/false);
    const auto rows = jacserve::bench::AllRows(golden);
    jacserve::bench::EngineRun best{.seconds = 1e30};
    for (int run = 0; run < 3; ++run) {
      const auto one = jacserve::bench::RunEngine(golden, threads, rows);
      if (one.seconds < best.seconds) best = one;
    }
    const nlohmann::json json = {{"name", argv[k]},
                                 {"seconds", best.seconds},
                                 {"bytes", best.bytes},
                                 {"linearize", best.effort.linearize},
                                 {"pullback", best.effort.pullback},
                                 {"rows", best.effort.rows}};
    std::printf("%s\n", json.dump().c_str());
  }
  return 0;
}
