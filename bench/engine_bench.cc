// The engine in one process on seed_full, no wire, against the machine's floor: the GEMM work at the measured peak plus
// the result's bytes at the measured non-temporal fill. Also two one-thread engines side by side against one.
// usage: engine_bench CASE_FOLDER_ROOT(= $JACSERVE_GOLDEN) [threads]
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bench/floors.h"
#include "common/process.h"
#include "common/status.h"
#include "tests/worker/engine/golden_case.h"

namespace jacserve::bench {
namespace {

using worker::BackendKind;
using worker::Engine;

// Takes rows and drops them.
class Discard : public worker::RowConsumer {
 public:
  absl::Status OnSlab(const worker::Slab& slab) override {
    bytes += static_cast<int64_t>(slab.bytes.size());
    return absl::OkStatus();
  }
  absl::Status OnRowsDone(RowRange) override { return absl::OkStatus(); }
  int64_t bytes = 0;
};

// Forward once per sample, then per row and term: pull back through every layer behind the first, and the weights'
// rows.
constexpr double kConv1 = 2.0 * 32 * 225 * 128, kConv2 = 2.0 * 64 * 64 * 512, kConv3 = 2.0 * 64 * 64 * 576;
constexpr double kDense0 = 2.0 * 4096 * 256, kDense1 = 2.0 * 256 * 64;
constexpr double kForward = kConv1 + kConv2 + kConv3 + kDense0 + kDense1;
constexpr double kGemmFlopsPerTerm = kConv1 + 2 * kConv2 + 2 * kConv3 + kDense0 + kDense1;
constexpr double kFlops = 112 * kForward + 3136 * 2 * kGemmFlopsPerTerm;

double RunEngine(const worker::GoldenCase& golden, int threads, RowRange rows, int64_t* bytes) {
  auto engine = Engine::Create(golden.problem, {BackendKind::kCpu, int64_t{512} << 20, threads});
  JACSERVE_CHECK(engine.ok());
  Discard discard;
  const auto run = [&] {
    const absl::Status status = (*engine)->ComputeRows(rows, discard, [] { return false; });
    JACSERVE_CHECK(status.ok());
  };
  const double seconds = SecondsOf(run);
  *bytes = discard.bytes;
  const worker::PhaseTimes times = (*engine)->phase_times();
  std::printf(
      "  %d thread(s), rows %ld: %.2f s (thread seconds: linearize %.2f, pullback %.2f, rows %.2f, send %.2f)\n",
      threads, rows.count, seconds, times.linearize, times.pullback, times.rows, times.send);
  return seconds;
}

int Main(int threads) {
  const worker::GoldenCase golden = worker::LoadGoldenCase("seed_full", /*with_expected=*/false);
  const double peak = GemmPeak(threads), fill = NonTemporalFill(threads);
  int64_t bytes = 0;
  double best = 1e30;
  for (int run = 0; run < 3; ++run) best = std::min(best, RunEngine(golden, threads, {0, 3136}, &bytes));
  const double floor = kFlops / peak + static_cast<double>(bytes) / fill;
  std::printf("sgemm peak %.1f GFLOP/s, non-temporal fill %.2f GB/s, %.1f GFLOP, %.2f GB\n", peak * 1e-9, fill * 1e-9,
              kFlops * 1e-9, static_cast<double>(bytes) * 1e-9);
  std::printf("engine / floor: %.2f s / %.2f s = %.2f\n", best, floor, best / floor);

  const double one = RunEngine(golden, 1, {0, 3136}, &bytes);
  const double side_by_side = SecondsOf([&] {
    int64_t first = 0, second = 0;
    std::jthread other([&] { RunEngine(golden, 1, {0, 1568}, &first); });
    RunEngine(golden, 1, {1568, 1568}, &second);
  });
  std::printf("one engine / two side by side on half the rows each: %.2f s / %.2f s = %.2f\n", one, side_by_side,
              one / side_by_side);
  return 0;
}

}  // namespace
}  // namespace jacserve::bench

int main(int argc, char** argv) {
  jacserve::TuneAllocator();
  return jacserve::bench::Main(argc > 1 ? std::atoi(argv[1]) : 2);
}
