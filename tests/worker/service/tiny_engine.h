// An engine of made-up rows, and requests for it: what the service needs to be tested without a network.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/digest.h"
#include "common/proto_convert.h"
#include "jacserve/v1/types.pb.h"
#include "tests/worker/model/onnx_builder.h"
#include "worker/service/shard_runner.h"

namespace jacserve::worker {

inline std::vector<std::byte> BytesOf(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Shared by a test and the engines that it makes.
struct TinyScript {
  int64_t rows = 40;
  int64_t columns = 1000;  // of the connected block
  int64_t rows_per_slab = 7;
  int64_t engine_bytes = 1000;  // that it says it allocates
  std::chrono::milliseconds pause_per_slab{0};
  absl::Status create_status;
  absl::Status value_status;
  std::atomic<int> created = 0;
  std::atomic<int> alive = 0;
  EngineOptions last_options;
};

// Row r, column c of the connected block is 1000 r + c.
class TinyEngine : public Engine {
 public:
  explicit TinyEngine(TinyScript& script, DType dtype) : script_(script) {
    ++script.created;
    ++script.alive;
    layout_.target_shape = {script.rows};
    layout_.rows = script.rows;
    layout_.dtype = dtype;
    layout_.blocks = {{"W", {script.columns}, true, script.columns * 4}, {"unused", {3}, false, 12}};
    layout_.row_tile = 4;
    layout_.flops_per_row = 12;
  }
  ~TinyEngine() override { --script_.alive; }

  const JacobianLayout& layout() const override { return layout_; }

  absl::StatusOr<std::vector<std::byte>> Value() override {
    if (!script_.value_status.ok()) return script_.value_status;
    times_.linearize += 1;
    return std::vector<std::byte>(script_.rows * SizeOf(layout_.dtype), std::byte{1});
  }

  absl::Status ComputeRows(RowRange rows, RowConsumer& consumer, const std::function<bool()>& cancelled) override {
    if (rows.end() > layout_.rows) return absl::OutOfRangeError("the target has fewer rows");
    for (int64_t begin = rows.begin; begin < rows.end(); begin += script_.rows_per_slab) {
      if (cancelled()) return absl::CancelledError("cancelled");
      std::this_thread::sleep_for(script_.pause_per_slab);
      const RowRange some{begin, std::min(script_.rows_per_slab, rows.end() - begin)};
      auto numbers = std::make_shared<std::vector<float>>();
      for (int64_t i = 0; i < some.count * script_.columns; ++i) {
        numbers->push_back(static_cast<float>(1000 * (begin + i / script_.columns) + i % script_.columns));
      }
      const Slab slab{0, some, std::as_bytes(std::span(*numbers)), numbers};
      if (absl::Status status = consumer.OnSlab(slab); !status.ok()) return status;
      if (absl::Status status = consumer.OnRowsDone(some); !status.ok()) return status;
      times_.rows += static_cast<double>(some.count);
    }
    return absl::OkStatus();
  }

  Effort effort() const override { return times_; }

 private:
  TinyScript& script_;
  JacobianLayout layout_;
  Effort times_;
};

inline EngineFactory TinyFactory(TinyScript& script) {
  return [&script](JacobianProblem problem, const EngineOptions& options) -> absl::StatusOr<std::unique_ptr<Engine>> {
    script.last_options = options;
    if (!script.create_status.ok()) return script.create_status;
    if (options.before_allocation) options.before_allocation(script.engine_bytes);
    return std::make_unique<TinyEngine>(script, problem.precision);
  };
}

inline GraphReporter TinyReporter() {
  return [](const Graph& graph) {
    GraphReport report;
    for (const GraphNode& node : graph.nodes) report.operators.push_back({node.op_type, node.domain, 1, true, {}});
    return report;
  };
}

// A graph and a tensor, and the request that names them.
struct TinyRequest {
  std::string graph = SmallModel().SerializeAsString();
  std::string x = std::string(2 * 2 * sizeof(float), '\0');
  v1::JacobianSpec spec;

  TinyRequest() {
    spec.set_graph_sha256(Sha256Of(std::as_bytes(std::span(graph))));
    v1::NamedTensor& input = *spec.add_inputs();
    input.set_name("x");
    input.mutable_tensor()->set_dtype(v1::DATA_TYPE_FLOAT32);
    input.mutable_tensor()->add_shape(2);
    input.mutable_tensor()->add_shape(2);
    input.mutable_tensor()->set_sha256(Sha256Of(std::as_bytes(std::span(x))));
  }
};

// What the tiny engine's row holds.
inline std::string TinyRows(const TinyScript& script, RowRange rows) {
  std::vector<float> numbers;
  for (int64_t row = rows.begin; row < rows.end(); ++row) {
    for (int64_t column = 0; column < script.columns; ++column) {
      numbers.push_back(static_cast<float>(1000 * row + column));
    }
  }
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

}  // namespace jacserve::worker
