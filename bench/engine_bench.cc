// The engine in one process on seed_full, no wire, against the machine's floor: the GEMM work at the measured peak plus
// the result's bytes at the measured non-temporal fill. Also two one-thread engines side by side against one.
// Finds the case in $JACSERVE_GOLDEN. usage: engine_bench [threads]; prints one JSON object.
#include <algorithm>
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
  const double seconds = SecondsOf([&] {
    const absl::Status status = (*engine)->ComputeRows(rows, discard, [] { return false; });
    JACSERVE_CHECK(status.ok());
  });
  if (bytes != nullptr) *bytes = discard.bytes;
  const worker::Effort times = (*engine)->effort();
  std::fprintf(stderr, "  %d thread(s), %ld rows: %.2f s (in threads: linearize %.2f, pullback %.2f, rows %.2f)\n",
               threads, rows.count, seconds, times.linearize, times.pullback, times.rows);
  return seconds;
}

int Main(int threads) {
  constexpr RowRange kAll{0, 3136}, kFirst{0, 1568}, kSecond{1568, 1568};
  const worker::GoldenCase golden = worker::LoadGoldenCase("seed_full", /*with_expected=*/false);
  const double peak = GemmPeak(threads), fill = NonTemporalFill(threads);
  int64_t bytes = 0;
  double engine = 1e30;
  for (int run = 0; run < 3; ++run) engine = std::min(engine, RunEngine(golden, threads, kAll, &bytes));
  double one = 1e30, both = 1e30;
  for (int run = 0; run < 3; ++run) {
    one = std::min(one, RunEngine(golden, 1, kAll, nullptr));
    both = std::min(both, SecondsOf([&] {
                      std::jthread other([&] { RunEngine(golden, 1, kFirst, nullptr); });
                      RunEngine(golden, 1, kSecond, nullptr);
                    }));
  }
  std::printf(
      "{\"gemm_flops_per_second\": %.4g, \"fill_bytes_per_second\": %.4g, \"flops\": %.4g, \"bytes\": %ld, "
      "\"engine_seconds\": %.3f, \"floor_seconds\": %.3f, \"one_engine_seconds\": %.3f, "
      "\"two_side_by_side_seconds\": %.3f}\n",
      peak, fill, kFlops, bytes, engine, kFlops / peak + static_cast<double>(bytes) / fill, one, both);
  return 0;
}

}  // namespace
}  // namespace jacserve::bench

int main(int argc, char** argv) {
  jacserve::TuneAllocator();
  return jacserve::bench::Main(argc > 1 ? std::atoi(argv[1]) : 2);
}
