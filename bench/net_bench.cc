// The engine on case folders below $JACSERVE_GOLDEN, in one process, no wire.
// usage: net_bench THREADS NAME ...; prints a JSON object of {"seconds", "bytes", phases} a line, the best of 5 rounds.
// A round runs every net once, so that a machine whose speed drifts is as fast for one as for the next.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/run_engine.h"
#include "common/process.h"

namespace {

struct Net {
  jacserve::worker::GoldenCase golden;
  jacserve::bench::EngineRun best{.seconds = 1e30};
};

void Print(const Net& net) {
  const nlohmann::json json = {{"name", net.golden.name},
                               {"seconds", net.best.seconds},
                               {"bytes", net.best.bytes},
                               {"linearize", net.best.effort.linearize},
                               {"pullback", net.best.effort.pullback},
                               {"rows", net.best.effort.rows}};
  std::printf("%s\n", json.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  jacserve::TuneAllocator();
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  std::vector<Net> nets;
  for (int k = 2; k < argc; ++k) nets.push_back({jacserve::worker::LoadGoldenCase(argv[k], /*with_expected=*/false)});
  for (int round = 0; round < 5; ++round) {
    for (Net& net : nets) {
      const auto run = jacserve::bench::RunEngine(net.golden, threads, jacserve::bench::AllRows(net.golden));
      if (run.seconds < net.best.seconds) net.best = run;
    }
  }
  for (const Net& net : nets) Print(net);
  return 0;
}
