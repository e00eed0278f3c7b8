// The engine: rows of one Jacobian, computed within a fixed memory budget.
// In: a graph, tensors, a target, what to differentiate with respect to. Out: the target's value, and slabs of rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/row_range.h"
#include "worker/backend/device_status.h"
#include "worker/backend/half.h"
#include "worker/model/graph.h"

namespace jacserve::worker {

enum class Similarity { kCosine, kDot, kSqdist };
enum class CosineForm { kSqrtMaxSum, kMaxNorm, kAddProduct };
enum class BackendKind { kReference, kCpu, kCuda };

struct PairwiseTarget {
  Similarity similarity = Similarity::kCosine;
  double sign = 1.0;
  CosineForm form = CosineForm::kSqrtMaxSum;
  double epsilon = 0.0;
};

using NamedTensors = std::vector<std::pair<std::string, HostTensor>>;

// One Jacobian, as jacserve.v1.JacobianSpec states it, with the bytes at hand.
struct JacobianProblem {
  std::shared_ptr<const Graph> graph;
  NamedTensors weights;
  NamedTensors inputs;         // samples along axis 0
  NamedTensors second_inputs;  // same names as `inputs`; pairwise only
  NamedTensors shared_inputs;
  std::string output;  // empty: the graph's only output
  std::optional<PairwiseTarget> pairwise;
  std::vector<std::string> wrt_parameters;  // names or globs; with wrt_inputs empty too: all parameters
  std::vector<std::string> wrt_inputs;
  DType precision = DType::kFloat32;  // kFloat32 or kFloat64
  std::optional<HalfFormat> values;   // with kFloat32: what values between operators are rounded to
  bool tf32 = false;                  // with kFloat32: products take TF32 factors; on kCuda alone
};

// Rows from cotangents pulled back or from tangents pushed forward: whichever costs less, unless said.
enum class Direction { kByCost, kPullback, kPushforward };

struct EngineOptions {
  BackendKind backend = BackendKind::kCpu;
  int64_t memory_budget_bytes = int64_t{2} << 30;  // for everything the engine allocates where the backend computes
  int threads = 1;
  Direction direction = Direction::kByCost;  // Unimplemented when a pushforward is asked for and there is none
  // Told once what the engine will allocate at most at a time, before it allocates any of it.
  std::function<void(int64_t bytes)> before_allocation;
  bool discard_rows = false;  // rows are dropped where they are made, and the consumer gets no slabs: for measuring
};

struct BlockInfo {
  std::string name;
  Shape shape;  // of the parameter, or of the whole input batch
  bool connected = true;
  int64_t row_bytes = 0;
};

struct JacobianLayout {
  Shape target_shape;
  int64_t rows = 0;  // product of target_shape
  DType dtype = DType::kFloat32;
  std::optional<HalfFormat> values;  // as asked for
  bool tf32 = false;                 // did products take TF32 factors?
  std::vector<BlockInfo> blocks;
  int64_t row_tile = 1;              // rows computed together; ranges aligned to it cost nothing extra
  double flops_per_row = 0;          // estimate
  std::vector<std::string> notices;  // what a user should be told, though it is no error
};

// Finished rows of one block: C order, rows.count * row_bytes bytes. The memory is the engine's and is reused when the
// last copy of keep_alive goes.
struct Slab {
  uint32_t block = 0;
  RowRange rows;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep_alive;
};

// Where rows go. Called by one thread at a time. An error ends the computation and is returned from it.
class RowConsumer {
 public:
  virtual ~RowConsumer() = default;
  virtual absl::Status OnSlab(const Slab& slab) = 0;
  virtual absl::Status OnRowsDone(RowRange rows) = 0;  // every connected block's slabs of these rows came before
};

// What computing took, in seconds summed over threads, and what JacobianProblem::values lost.
struct Effort {
  double linearize = 0;
  double pullback = 0;
  double rows = 0;
  double send = 0;
  HalfLoss loss;
};

class Engine {
 public:
  // Compiles the problem. InvalidArgument: names, shapes or dtypes that do not fit, TF32 on a backend that has none.
  // Unimplemented: every unsupported operator at once. ResourceExhausted: the budget, with the smallest workable one.
  // FailedPrecondition: the backend cannot be had on this machine or in this build, with what is missing.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(JacobianProblem problem, const EngineOptions& options);

  virtual ~Engine() = default;
  virtual const JacobianLayout& layout() const = 0;

  // The whole target, C order, layout().dtype.
  virtual absl::StatusOr<std::vector<std::byte>> Value() = 0;

  // Computes rows [begin, begin + count). OutOfRange: rows outside the target. Cancelled: `cancelled` said so.
  // Unavailable with IsDeviceLost: this process can compute no more. ResourceExhausted: the device has less memory than
  // the budget allows, and too little for even one tile at a time.
  // One call at a time.
  virtual absl::Status ComputeRows(RowRange rows, RowConsumer& consumer, const std::function<bool()>& cancelled) = 0;

  virtual Effort effort() const = 0;  // since it was made
};

// What DescribeModel answers beyond the graph itself.
struct GraphReport {
  struct OpCount {
    std::string op_type, domain;
    int64_t count = 0;
    bool supported = false;
    std::vector<std::string> nodes;  // names, at most 8
  };
  std::vector<OpCount> operators;  // of nodes that some output depends on
  bool samples_independent = true;
  std::string coupling;  // when not: the node that mixes samples, or why it could not be decided
};
GraphReport ReportOn(const Graph& graph);

}  // namespace jacserve::worker
