#include "bench/run_engine.h"

#include <cstdio>

#include "bench/floors.h"
#include "common/status.h"

namespace jacserve::bench {
namespace {

class Discard : public worker::RowConsumer {
 public:
  absl::Status OnSlab(const worker::Slab& slab) override {
    bytes += static_cast<int64_t>(slab.bytes.size());
    return absl::OkStatus();
  }
  absl::Status OnRowsDone(RowRange) override { return absl::OkStatus(); }
  int64_t bytes = 0;
};

std::unique_ptr<worker::Engine> Compile(const worker::GoldenCase& golden, int threads) {
  auto engine = worker::Engine::Create(golden.problem, {worker::BackendKind::kCpu, int64_t{512} << 20, threads});
  if (!engine.ok()) std::fprintf(stderr, "%s\n", engine.status().ToString().c_str());
  JACSERVE_CHECK(engine.ok());
  return *std::move(engine);
}

}  // namespace

EngineRun RunEngine(const worker::GoldenCase& golden, int threads, RowRange rows) {
  const auto engine = Compile(golden, threads);
  Discard discard;
  EngineRun run;
  run.seconds = SecondsOf([&] {
    const absl::Status status = engine->ComputeRows(rows, discard, [] { return false; });
    JACSERVE_CHECK(status.ok());
  });
  run.bytes = discard.bytes;
  run.effort = engine->effort();
  std::fprintf(stderr, "  %s, %d thread(s), %ld rows: %.3f s (in threads: linearize %.2f, pullback %.2f, rows %.2f)\n",
               golden.name.c_str(), threads, rows.count, run.seconds, run.effort.linearize, run.effort.pullback,
               run.effort.rows);
  return run;
}

RowRange AllRows(const worker::GoldenCase& golden) { return {0, Compile(golden, 1)->layout().rows}; }

}  // namespace jacserve::bench
