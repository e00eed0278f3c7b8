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
  X(Acos, 7)                  \
  X(Acosh, 9)                 \
  X(Add, 7)                   \
  X(And, 7)                   \
  X(ArgMax, 1)                \
  X(ArgMin, 1)                \
  X(Asin, 7)                  \
  X(Asinh, 9)                 \
  X(Atan, 7)                  \
  X(Atanh, 9)                 \
  X(AveragePool, 1)           \
  X(BatchNormalization, 7)    \
  X(Cast, 6)                  \
  X(CastLike, 15)             \
  X(Ceil, 6)                  \
  X(Clip, 6)                  \
  X(Concat, 4)                \
  X(Constant, 1)              \
  X(ConstantOfShape, 9)       \
  X(Conv, 1)                  \
  X(ConvTranspose, 1)         \
  X(Cos, 7)                   \
  X(Cosh, 9)                  \
  X(CumSum, 11)               \
  X(Div, 7)                   \
  X(Elu, 6)                   \
  X(Equal, 7)                 \
  X(Erf, 9)                   \
  X(Exp, 6)                   \
  X(Expand, 8)                \
  X(EyeLike, 9)               \
  X(Flatten, 1)               \
  X(Floor, 6)                 \
  X(Gather, 1)                \
  X(GatherElements, 11)       \
  X(GatherND, 11)             \
  X(Gelu, 20)                 \
  X(Gemm, 7)                  \
  X(Greater, 7)               \
  X(GreaterOrEqual, 12)       \
  X(GroupNormalization, 18)   \
  X(Hardmax, 1)               \
  X(HardSigmoid, 6)           \
  X(HardSwish, 14)            \
  X(Identity, 1)              \
  X(InstanceNormalization, 6) \
  X(IsInf, 10)                \
  X(IsNaN, 9)                 \
  X(LayerNormalization, 17)   \
  X(LeakyRelu, 6)             \
  X(Less, 7)                  \
  X(LessOrEqual, 12)          \
  X(Log, 6)                   \
  X(LogSoftmax, 1)            \
  X(MatMul, 1)                \
  X(Max, 6)                   \
  X(MaxPool, 1)               \
  X(Min, 6)                   \
  X(Mod, 10)                  \
  X(Mul, 7)                   \
  X(Neg, 6)                   \
  X(NonZero, 9)               \
  X(Not, 1)                   \
  X(OneHot, 9)                \
  X(Or, 7)                    \
  X(Pad, 2)                   \
  X(Pow, 7)                   \
  X(PRelu, 6)                 \
  X(Range, 11)                \
  X(Reciprocal, 6)            \
  X(ReduceL2, 1)              \
  X(ReduceLogSumExp, 1)       \
  X(ReduceMax, 1)             \
  X(ReduceMean, 1)            \
  X(ReduceMin, 1)             \
  X(ReduceProd, 1)            \
  X(ReduceSum, 1)             \
  X(Relu, 6)                  \
  X(Reshape, 5)               \
  X(Resize, 10)               \
  X(ReverseSequence, 10)      \
  X(RMSNormalization, 23)     \
  X(Round, 11)                \
  X(Scatter, 9)               \
  X(ScatterElements, 11)      \
  X(ScatterND, 11)            \
  X(Selu, 6)                  \
  X(Shape, 1)                 \
  X(Shrink, 9)                \
  X(Sigmoid, 6)               \
  X(Sign, 9)                  \
  X(Sin, 7)                   \
  X(Sinh, 9)                  \
  X(Size, 1)                  \
  X(Slice, 1)                 \
  X(Softmax, 1)               \
  X(Softplus, 1)              \
  X(Softsign, 1)              \
  X(Split, 1)                 \
  X(Sqrt, 6)                  \
  X(Squeeze, 1)               \
  X(Sub, 7)                   \
  X(Tan, 7)                   \
  X(Tanh, 6)                  \
  X(ThresholdedRelu, 10)      \
  X(TopK, 1)                  \
  X(Transpose, 1)             \
  X(Trilu, 14)                \
  X(Unsqueeze, 1)             \
  X(Upsample, 7)              \
  X(Where, 9)                 \
  X(Xor, 7)

// Those that are graphs of others (worker/ops/expansion.h). X(OpType, first opset understood).
#define JACSERVE_EXPANSIONS(X)     \
  X(Attention, 23)                 \
  X(Celu, 12)                      \
  X(Compress, 9)                   \
  X(DepthToSpace, 1)               \
  X(Dropout, 1)                    \
  X(Einsum, 12)                    \
  X(GlobalAveragePool, 1)          \
  X(GlobalLpPool, 1)               \
  X(GlobalMaxPool, 1)              \
  X(GRU, 7)                        \
  X(LpNormalization, 1)            \
  X(LpPool, 1)                     \
  X(LRN, 1)                        \
  X(LSTM, 7)                       \
  X(Mean, 6)                       \
  X(MeanVarianceNormalization, 9)  \
  X(Mish, 18)                      \
  X(NegativeLogLikelihoodLoss, 12) \
  X(ReduceL1, 1)                   \
  X(ReduceLogSum, 1)               \
  X(ReduceSumSquare, 1)            \
  X(RNN, 7)                        \
  X(RotaryEmbedding, 23)           \
  X(SoftmaxCrossEntropyLoss, 12)   \
  X(SpaceToDepth, 1)               \
  X(Sum, 6)                        \
  X(SwiGLU, 28)                    \
  X(Swish, 24)                     \
  X(Tile, 6)

constexpr int kNewestOpset = 28;

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
