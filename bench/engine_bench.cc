// The engine in one process on seed_full, no wire, against the machine's floor: the GEMM work at the measured peak plus
// the result's bytes at the measured non-temporal fill. Also two one-thread engines side by side against one.
// Finds the case in $JACSERVE_GOLDEN. usage: engine_bench [threads]; prints one JSON object.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bench/floors.h"
#include "bench/run_engine.h"
#include "bench/seed_flops.h"
#include "common/process.h"

namespace jacserve::bench {
namespace {

int Main(int threads) {
  constexpr RowRange kAll{0, 3136}, kFirst{0, 1568}, kSecond{1568, 1568};
  const worker::GoldenCase golden = worker::LoadGoldenCase("seed_full", /*with_expected=*/false);
  const double peak = GemmPeak(threads), fill = NonTemporalFill(threads);
  EngineRun engine{.seconds = 1e30};
  for (int run = 0; run < 3; ++run) {
    const EngineRun one_run = RunEngine(golden, threads, kAll);
    if (one_run.seconds < engine.seconds) engine = one_run;
  }
  double one = 1e30, both = 1e30;
  for (int run = 0; run < 3; ++run) {
    one = std::min(one, RunEngine(golden, 1, kAll).seconds);
    both = std::min(both, SecondsOf([&] {
                      std::jthread other([&] { RunEngine(golden, 1, kFirst); });
                      RunEngine(golden, 1, kSecond);
                    }));
  }
  std::printf(
      "{\"gemm_flops_per_second\": %.4g, \"fill_bytes_per_second\": %.4g, \"flops\": %.4g, \"bytes\": %ld, "
      "\"engine_seconds\": %.3f, \"floor_seconds\": %.3f, \"one_engine_seconds\": %.3f, "
      "\"two_side_by_side_seconds\": %.3f, \"linearize\": %.3f, \"pullback\": %.3f, \"rows\": %.3f}\n",
      peak, fill, kSeedFlops, engine.bytes, engine.seconds,
      kSeedFlops / peak + static_cast<double>(engine.bytes) / fill, one, both, engine.effort.linearize,
      engine.effort.pullback, engine.effort.rows);
  return 0;
}

}  // namespace
}  // namespace jacserve::bench

int main(int argc, char** argv) {
  jacserve::TuneAllocator();
  return jacserve::bench::Main(argc > 1 ? std::atoi(argv[1]) : 2);
}
