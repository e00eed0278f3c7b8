// Values that depend on shapes and constants only: ConstantOfShape, EyeLike, NonZero, Range, Size.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/folded.h"
#include "worker/ops/folding.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 22;  // of a value that is made when the graph is compiled

absl::Status CheckSize(int64_t elements) {
  if (elements <= kMostElements) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("it makes ", elements, " elements; at most ", kMostElements, " are accepted"));
}

// y = the one element of `value`, in a shape that is known. A shape that holds the number of samples has them along
// that axis, all alike.
class ConstantOfShape : public Op {
 public:
  explicit ConstantOfShape(HostTensor value) : value_(std::move(value)) {}
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(Shape shape, ConstantInts(in, 0, "the shape"));
    RETURN_IF_ERROR(ElementCount(shape).status());
    return std::vector<Facts>{{value_.dtype, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    return std::vector<int>{BatchAxis(in, out[0].shape)};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const std::vector<Facts> out, InferShapes(in));
    const int64_t count = Elements(out[0].shape), element_bytes = SizeOf(value_.dtype);
    if (BatchAxis(in, out[0].shape) >= 0 || count > kMostElements) return std::nullopt;
    auto bytes = std::make_shared<std::vector<std::byte>>(count * element_bytes);
    for (int64_t p = 0; p < count; ++p) {
      std::memcpy(bytes->data() + p * element_bytes, value_.bytes->data(), element_bytes);
    }
    return std::vector<HostTensor>{{value_.dtype, out[0].shape, std::move(bytes)}};
  }
  bool DifferentiableIn(int) const override { return false; }
  InputRole RoleOf(int) const override { return InputRole::kShape; }
  bool PullbackReadsInput(int, int) const override { return false; }
  void Forward(const ForwardArgs& args) const override {
    args.backend.Fill(args.lanes, Elements(out_[0]), Number(), args.y[0]);
  }
  void Pullback(int, const PullbackArgs&, Lanes) const override {}

 private:
  static int BatchAxis(const InputFacts& in, const Shape& shape) {
    const auto holds = [&](int64_t size) { return size > 0 && size % in.batch == 0; };
    if (in.likely_axis) {
      const bool fits = *in.likely_axis >= 0 && *in.likely_axis < static_cast<int>(shape.size());
      return fits && holds(shape[*in.likely_axis]) ? *in.likely_axis : -1;
    }
    const auto it = in.batch > 1 ? std::find_if(shape.begin(), shape.end(), holds) : shape.end();
    return it == shape.end() ? -1 : static_cast<int>(it - shape.begin());
  }
  double Number() const {
    if (value_.dtype == DType::kFloat32) return *value_.data<float>();
    if (value_.dtype == DType::kFloat64) return *value_.data<double>();
    return static_cast<double>(IntsOf(value_)[0]);
  }
  HostTensor value_;
};

// Ones on a diagonal of a matrix of x's shape.
class EyeLike : public FoldedOp {
 public:
  EyeLike(std::optional<DType> dtype, int64_t k) : dtype_(dtype), k_(k) {}
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    if (in[0].shape.size() != 2) return absl::InvalidArgumentError("its input is not a matrix");
    return std::vector<Facts>{{dtype_.value_or(in[0].dtype), in[0].shape}};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    if (in[0].batch_axis >= 0) return MixesSamples("its diagonal is another one for every sample");
    ASSIGN_OR_RETURN(const std::vector<Facts> out, InferShapes(in));
    const int64_t rows = out[0].shape[0], columns = out[0].shape[1];
    RETURN_IF_ERROR(CheckSize(Elements(out[0].shape)));
    std::vector<int64_t> eye(rows * columns, 0);
    for (int64_t row = 0; row < rows; ++row) {
      const bool inside = k_ < columns && k_ > -rows && row + k_ >= 0 && row + k_ < columns;
      if (inside) eye[row * columns + row + k_] = 1;
    }
    if (!IsFloat(out[0].dtype)) return std::vector<HostTensor>{IntTensor(out[0].dtype, out[0].shape, eye)};
    auto bytes = std::make_shared<std::vector<std::byte>>(eye.size() * sizeof(float));
    for (size_t p = 0; p < eye.size(); ++p) {
      const auto number = static_cast<float>(eye[p]);
      std::memcpy(bytes->data() + p * sizeof number, &number, sizeof number);
    }
    return std::vector<HostTensor>{{DType::kFloat32, out[0].shape, std::move(bytes)}};
  }

 private:
  std::optional<DType> dtype_;
  int64_t k_;
};

// The places of x that are not zero: [rank, count], in C order.
class NonZero : public FoldedOp {
 public:
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const std::vector<int64_t> x, ConstantInts(in, 0, "the value whose places are asked for"));
    const auto count = static_cast<int64_t>(x.size()) - std::count(x.begin(), x.end(), 0);
    return std::vector<Facts>{{DType::kInt64, {static_cast<int64_t>(in[0].shape.size()), count}}};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const std::vector<Facts> out, InferShapes(in));
    const std::vector<double> x = ConstantNumbers(*in[0].constant);
    const Shape &shape = in[0].shape, steps = RowMajorStrides(shape);
    const int64_t count = out[0].shape[1];
    std::vector<int64_t> places(Elements(out[0].shape));
    int64_t column = 0;
    for (int64_t p = 0; p < static_cast<int64_t>(x.size()); ++p) {
      if (x[p] == 0) continue;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        places[static_cast<int64_t>(axis) * count + column] = p / steps[axis] % shape[axis];
      }
      ++column;
    }
    return std::vector<HostTensor>{IntTensor(DType::kInt64, out[0].shape, places)};
  }
};

// start, start + delta, .. before limit: max(ceil((limit - start) / delta), 0) numbers.
class Range : public FoldedOp {
 public:
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const std::vector<double> values, Values(in));
    return std::vector<Facts>{{in[0].dtype, {static_cast<int64_t>(values.size())}}};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    ASSIGN_OR_RETURN(const std::vector<double> values, Values(in));
    return std::vector<HostTensor>{ConstantOf(in[0].dtype, {static_cast<int64_t>(values.size())}, values)};
  }

 private:
  static absl::StatusOr<std::vector<double>> Values(const InputFacts& in) {
    double of[3];
    constexpr const char* kWhat[] = {"the start", "the limit", "the step"};
    for (size_t i = 0; i < 3; ++i) {
      ASSIGN_OR_RETURN(const std::vector<double> one, KnownNumbers(in, i, kWhat[i]));
      constexpr double kMost = 9007199254740992.0;  // 2^53
      if (one.size() != 1 || !(std::fabs(one[0]) <= kMost)) {
        return absl::InvalidArgumentError(absl::StrCat(kWhat[i], " is not one number"));
      }
      of[i] = one[0];
    }
    const auto [start, limit, delta] = of;
    if (delta == 0) return absl::InvalidArgumentError("a step of 0");
    const double count = std::max(std::ceil((limit - start) / delta), 0.0);
    RETURN_IF_ERROR(CheckSize(static_cast<int64_t>(std::min(count, 1e18))));
    std::vector<double> values(static_cast<size_t>(count));
    for (size_t k = 0; k < values.size(); ++k) values[k] = start + static_cast<double>(k) * delta;
    return values;
  }
};

class Size : public FoldedOp {
 public:
  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    return std::vector<Facts>{{DType::kInt64, {}}};
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    return std::vector<HostTensor>{IntTensor(DType::kInt64, {}, {Elements(in[0].shape)})};
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeConstantOfShape(const GraphNode& node, int) {
  const auto it = node.attributes.find("value");
  if (it == node.attributes.end()) {
    const auto zero = std::make_shared<std::vector<std::byte>>(sizeof(float));
    return std::make_unique<ConstantOfShape>(HostTensor{DType::kFloat32, {1}, zero});
  }
  const auto* value = std::get_if<HostTensor>(&it->second);
  if (value == nullptr || Elements(value->shape) != 1) {
    return absl::InvalidArgumentError("attribute value is not a tensor of one element");
  }
  return std::make_unique<ConstantOfShape>(*value);
}

absl::StatusOr<std::unique_ptr<Op>> MakeEyeLike(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t k, IntAttribute(node, "k", 0));
  ASSIGN_OR_RETURN(const int64_t type, IntAttribute(node, "dtype", 0));
  switch (type) {  // onnx.TensorProto.DataType
    case 0:
      return std::make_unique<EyeLike>(std::nullopt, k);
    case 1:
    case 11:
      return std::make_unique<EyeLike>(DType::kFloat32, k);
    case 6:
      return std::make_unique<EyeLike>(DType::kInt32, k);
    case 7:
      return std::make_unique<EyeLike>(DType::kInt64, k);
    case 9:
      return std::make_unique<EyeLike>(DType::kBool, k);
    default:
      return absl::UnimplementedError(absl::StrCat("a value of ONNX type ", type));
  }
}

absl::StatusOr<std::unique_ptr<Op>> MakeNonZero(const GraphNode&, int) { return std::make_unique<NonZero>(); }
absl::StatusOr<std::unique_ptr<Op>> MakeRange(const GraphNode&, int) { return std::make_unique<Range>(); }
absl::StatusOr<std::unique_ptr<Op>> MakeSize(const GraphNode&, int) { return std::make_unique<Size>(); }

}  // namespace jacserve::worker
