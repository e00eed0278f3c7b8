// The list of operators: one line each. Adding one is a file with Make<Name> or Expand<Name> and a line here.
// In: an operator's name and opset. Out: its rules, or the word that there are none.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "worker/ops/expansion.h"
#include "worker/ops/op.h"

namespace jacserve::worker {

// X(OpType, first opset understood). All are understood up to kNewestOpset.
#define JACSERVE_OPS(X)       \
  X(Abs, 6)                   \
  X(Add, 7)                   \
  X(AveragePool, 1)           \
  X(BatchNormalization, 7)    \
  X(Cast, 6)                  \
  X(Concat, 4)                \
  X(Constant, 1)              \
  X(Conv, 1)                  \
  X(ConvTranspose, 1)         \
  X(Cos, 7)                   \
  X(Div, 7)                   \
  X(Dropout, 7)               \
  X(Elu, 6)                   \
  X(Erf, 9)                   \
  X(Exp, 6)                   \
  X(Expand, 8)                \
  X(Flatten, 1)               \
  X(Gather, 1)                \
  X(Gemm, 7)                  \
  X(GroupNormalization, 18)   \
  X(Identity, 1)              \
  X(InstanceNormalization, 6) \
  X(LayerNormalization, 17)   \
  X(LeakyRelu, 6)             \
  X(Log, 6)                   \
  X(LogSoftmax, 1)            \
  X(MatMul, 1)                \
  X(MaxPool, 1)               \
  X(Mul, 7)                   \
  X(Neg, 6)                   \
  X(RMSNormalization, 23)     \
  X(Reciprocal, 6)            \
  X(ReduceMean, 1)            \
  X(ReduceSum, 1)             \
  X(Relu, 6)                  \
  X(Reshape, 5)               \
  X(Resize, 10)               \
  X(Shape, 1)                 \
  X(Sigmoid, 6)               \
  X(Sin, 7)                   \
  X(Slice, 1)                 \
  X(Softmax, 1)               \
  X(Softplus, 1)              \
  X(Softsign, 1)              \
  X(Sqrt, 6)                  \
  X(Squeeze, 1)               \
  X(Sub, 7)                   \
  X(Tanh, 6)                  \
  X(Transpose, 1)             \
  X(Unsqueeze, 1)             \
  X(Upsample, 7)

// Those that are graphs of others (worker/ops/expansion.h). X(OpType, first opset understood).
#define JACSERVE_EXPANSIONS(X)    \
  X(Celu, 12)                     \
  X(DepthToSpace, 1)              \
  X(GlobalAveragePool, 1)         \
  X(GlobalLpPool, 1)              \
  X(GlobalMaxPool, 1)             \
  X(LRN, 1)                       \
  X(LpNormalization, 1)           \
  X(LpPool, 1)                    \
  X(MeanVarianceNormalization, 9) \
  X(Mish, 18)                     \
  X(SpaceToDepth, 1)

constexpr int kNewestOpset = 23;

// InvalidArgument: an attribute of the wrong type or value. Unimplemented: a form of the operator not supported.
using OpMaker = absl::StatusOr<std::unique_ptr<Op>> (*)(const GraphNode& node, int opset);

#define X(Name, since) absl::StatusOr<std::unique_ptr<Op>> Make##Name(const GraphNode& node, int opset);
JACSERVE_OPS(X)
#undef X

// The same errors. `opset`: of the node to expand.
using OpExpander = absl::Status (*)(Expansion& e, int opset);

#define X(Name, since) absl::Status Expand##Name(Expansion& e, int opset);
JACSERVE_EXPANSIONS(X)
#undef X

struct OpEntry {
  std::string_view op_type;
  int since;
  OpMaker make;  // one of these two
  OpExpander expand;
};
std::span<const OpEntry> OpTable();

// nullptr: no rules for this operator at this opset, or from another domain than ai.onnx.
const OpEntry* FindOp(std::string_view domain, std::string_view op_type, int64_t opset);

}  // namespace jacserve::worker
