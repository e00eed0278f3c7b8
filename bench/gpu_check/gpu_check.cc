// One step of the check on a GPU. In: a golden case of $JACSERVE_GOLDEN and how to compute it. Out: one JSON object
// with times, memory and how far every block is from what is expected. usage: gpu_check device | gpu_check compute CASE
// [options]; status 2: no GPU can be used, and why is on stderr.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/gpu_check/free_memory.h"
#include "bench/gpu_check/verifying_consumer.h"
#include "bench/seed_flops.h"
#include "common/budget_status.h"
#include "common/status.h"
#include "tests/worker/engine/golden_case.h"
#include "worker/engine/devices.h"

namespace jacserve::bench {
namespace {

using nlohmann::json;
using worker::BackendKind;

constexpr int kNoGpu = 2;

struct Arguments {
  std::string name, precision = "fp32";
  int64_t budget_bytes = int64_t{2} << 30, rows = 0;  // 0: all
  int threads = 3;
  bool verify = false, discard = false, repeat = false, memory = false;
};

bool Never() { return false; }

// Counts and drops.
class Dropping : public worker::RowConsumer {
 public:
  absl::Status OnSlab(const worker::Slab&) override { return absl::OkStatus(); }
  absl::Status OnRowsDone(RowRange) override { return absl::OkStatus(); }
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return absl::IsFailedPrecondition(status) ? kNoGpu : EXIT_FAILURE;
}

int Device() {
  const absl::StatusOr<worker::ComputeDevice> device = worker::FindComputeDevice(BackendKind::kCuda);
  if (!device.ok()) return Fail(device.status());
  const worker::GpuFacts& gpu = *device->gpu;
  std::printf("%s\n", json{{"name", device->name},
                           {"uuid", gpu.uuid},
                           {"compute_capability", gpu.compute_capability},
                           {"driver_cuda", gpu.driver},
                           {"memory_bytes", gpu.memory_bytes},
                           {"free_bytes", gpu.free_bytes}}
                          .dump()
                          .c_str());
  return EXIT_SUCCESS;
}

void SetPrecision(const std::string& precision, worker::JacobianProblem& problem) {
  problem.tf32 = precision == "tf32";
  if (precision == "fp64") problem.precision = DType::kFloat64;
  if (precision == "fp16") problem.values = worker::HalfFormat::kFloat16;
  if (precision == "bf16") problem.values = worker::HalfFormat::kBfloat16;
}

// Whole on several threads, and in uneven shards on one: do the rows have the same bits?
absl::StatusOr<bool> SameBits(const worker::JacobianProblem& problem, worker::EngineOptions options) {
  std::vector<std::vector<std::vector<std::byte>>> results;
  for (const bool sharded : {false, true}) {
    if (sharded) options.threads = 1;
    ASSIGN_OR_RETURN(const auto engine, worker::Engine::Create(problem, options));
    const int64_t rows = engine->layout().rows, cut = sharded ? rows / 3 : 0;
    worker::Gather gather(engine->layout(), {0, rows});
    RETURN_IF_ERROR(engine->ComputeRows({cut, rows - cut}, gather, Never));
    RETURN_IF_ERROR(engine->ComputeRows({0, cut}, gather, Never));
    results.push_back(gather.blocks());
  }
  return results[0] == results[1];
}

// Seconds of the first run, with all that is allocated in it, and of one more on the same engine.
absl::Status Time(worker::Engine& engine, RowRange rows, json& result) {
  Dropping dropping;
  const char* const names[] = {"first_seconds", "seconds"};
  for (const char* name : names) {
    const auto begin = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(engine.ComputeRows(rows, dropping, Never));
    result[name] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  result["linearize_seconds"] = engine.effort().linearize;
  return absl::OkStatus();
}

absl::Status Verify(worker::Engine& engine, RowRange rows, const std::string& name, json& result) {
  ASSIGN_OR_RETURN(auto consumer, VerifyingConsumer::Make(engine.layout(), rows, worker::GoldenFolder(name)));
  ASSIGN_OR_RETURN(const std::vector<std::byte> value, engine.Value());
  RETURN_IF_ERROR(consumer->OnValue(value));
  RETURN_IF_ERROR(engine.ComputeRows(rows, *consumer, Never));
  result["right"] = consumer->AllRight();
  for (const client::Verdict& verdict : consumer->Verdicts()) {
    const bool off = verdict.outcome == client::Verdict::Outcome::kOff;
    // Right although beyond the tolerance: a block of zeros, and what rounding left there.
    const bool lost_in_zero = !off && verdict.worst_error > verdict.tolerance;
    result["blocks"].push_back({{"name", verdict.block},
                                {"figure", verdict.figure},
                                {"worst_error", lost_in_zero ? 0.0 : verdict.worst_error},
                                {"off", off},
                                {"problem", verdict.problem}});
  }
  return absl::OkStatus();
}

absl::Status Compute(const Arguments& asked, json& result) {
  worker::GoldenCase golden = worker::LoadGoldenCase(asked.name, /*with_expected=*/false);
  SetPrecision(asked.precision, golden.problem);
  worker::EngineOptions options{BackendKind::kCuda, asked.budget_bytes, asked.threads};
  options.discard_rows = asked.discard;
  if (asked.repeat) {
    ASSIGN_OR_RETURN(result["same_bits"], SameBits(golden.problem, options));
  }
  std::unique_ptr<FreeMemory> memory;
  if (asked.memory) {  // what CUDA takes for itself is there before the engine that is measured
    ASSIGN_OR_RETURN(const auto warm_up, worker::Engine::Create(golden.problem, options));
    Dropping dropping;
    RETURN_IF_ERROR(
        warm_up->ComputeRows({0, std::min(warm_up->layout().row_tile, warm_up->layout().rows)}, dropping, Never));
  }
  if (asked.memory) memory = std::make_unique<FreeMemory>();
  ASSIGN_OR_RETURN(const auto engine, worker::Engine::Create(golden.problem, options));
  const worker::JacobianLayout& layout = engine->layout();
  const RowRange rows{0, asked.rows > 0 ? std::min(asked.rows, layout.rows) : layout.rows};
  int64_t row_bytes = 0;
  for (const worker::BlockInfo& block : layout.blocks) row_bytes += block.connected ? block.row_bytes : 0;
  result.update({{"rows", rows.count}, {"all_rows", layout.rows}, {"row_tile", layout.row_tile}});
  result.update({{"bytes", rows.count * row_bytes}, {"tf32", layout.tf32}, {"half", layout.values.has_value()}});
  if (asked.name == "seed_full") result["flops"] = kSeedFlops * rows.count / layout.rows;
  RETURN_IF_ERROR(asked.verify ? Verify(*engine, rows, asked.name, result) : Time(*engine, rows, result));
  const worker::HalfLoss loss = engine->effort().loss;
  result.update({{"underflows", loss.underflows}, {"overflows", loss.overflows}});
  if (memory) result["peak_device_bytes"] = memory->LargestTaken();
  return absl::OkStatus();
}

int Run(const Arguments& asked) {
  json result{{"case", asked.name}, {"precision", asked.precision}, {"budget_bytes", asked.budget_bytes}};
  const absl::Status status = Compute(asked, result);
  if (const auto smallest = SmallestBudgetOf(status)) {
    result["smallest_budget_bytes"] = *smallest;
  } else if (!status.ok()) {
    return Fail(status);
  }
  std::printf("%s\n", result.dump().c_str());
  return EXIT_SUCCESS;
}

int Main(int argc, char** argv) {
  CLI::App app("One step of the check on a GPU");
  app.require_subcommand(1);
  const auto* device = app.add_subcommand("device", "Which GPU there is");
  auto* compute = app.add_subcommand("compute", "Compute a golden case");
  Arguments asked;
  compute->add_option("case", asked.name)->required();
  compute->add_option("--precision", asked.precision)->check(CLI::IsMember({"fp32", "fp64", "tf32", "fp16", "bf16"}));
  compute->add_option("--budget", asked.budget_bytes, "Bytes");
  compute->add_option("--rows", asked.rows, "The first ones only");
  compute->add_option("--threads", asked.threads);
  compute->add_flag("--verify", asked.verify, "Compare with what is expected");
  compute->add_flag("--discard", asked.discard, "Drop the rows on the GPU");
  compute->add_flag("--repeat", asked.repeat, "Compare the bits with those of uneven shards");
  compute->add_flag("--memory", asked.memory, "Measure the GPU's memory that is taken");
  CLI11_PARSE(app, argc, argv);
  return device->parsed() ? Device() : Run(asked);
}

}  // namespace
}  // namespace jacserve::bench

int main(int argc, char** argv) { return jacserve::bench::Main(argc, argv); }
