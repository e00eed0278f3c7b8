#include "worker/ops/folding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/broadcast.h"

namespace jacserve::worker {
namespace {

constexpr int64_t kMostFolded = int64_t{1} << 22;  // elements; more are computed with the other numbers

// Offsets into a tensor of shape `from` of the elements of `to`, to which it is broadcast.
std::vector<int64_t> BroadcastOffsets(const Shape& from, const Shape& to) {
  const Shape steps = RowMajorStrides(to), strides = BroadcastStrides(from, to);
  std::vector<int64_t> offsets(Elements(to), 0);
  for (size_t p = 0; p < offsets.size(); ++p) {
    auto rest = static_cast<int64_t>(p);
    for (size_t axis = 0; axis < to.size(); ++axis) {
      offsets[p] += rest / steps[axis] * strides[axis];
      rest %= steps[axis];
    }
  }
  return offsets;
}

int64_t Wrapped(BinaryFunction f, int64_t a, int64_t b) {
  const auto u = static_cast<uint64_t>(a), v = static_cast<uint64_t>(b);
  return static_cast<int64_t>(f == BinaryFunction::kAdd ? u + v : f == BinaryFunction::kSub ? u - v : u * v);
}

absl::StatusOr<int64_t> OfIntegers(BinaryFunction f, int64_t a, int64_t b) {
  switch (f) {
    case BinaryFunction::kAdd:
    case BinaryFunction::kSub:
    case BinaryFunction::kMul:
      return Wrapped(f, a, b);
    case BinaryFunction::kIntDiv:
    case BinaryFunction::kIntMod:
    case BinaryFunction::kFMod: {
      if (b == 0) return absl::InvalidArgumentError("it divides an integer by zero");
      if (b == -1) return f == BinaryFunction::kIntDiv ? Wrapped(BinaryFunction::kSub, 0, a) : 0;
      if (f == BinaryFunction::kIntDiv) return a / b;
      const int64_t rest = a % b;
      return f == BinaryFunction::kIntMod && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case BinaryFunction::kMax:
      return std::max(a, b);
    case BinaryFunction::kMin:
      return std::min(a, b);
    case BinaryFunction::kLess:
      return a < b;
    case BinaryFunction::kLessOrEqual:
      return a <= b;
    case BinaryFunction::kGreater:
      return a > b;
    case BinaryFunction::kGreaterOrEqual:
      return a >= b;
    case BinaryFunction::kEqual:
      return a == b;
    case BinaryFunction::kIntPow: {
      if (b < 0) return a == 1 ? 1 : (a == -1 ? (b % 2 == 0 ? 1 : -1) : 0);
      int64_t power = 1;
      for (int64_t base = a; b > 0; b >>= 1, base = Wrapped(BinaryFunction::kMul, base, base)) {
        if (b & 1) power = Wrapped(BinaryFunction::kMul, power, base);
      }
      return power;
    }
    case BinaryFunction::kAnd:
      return a != 0 && b != 0;
    case BinaryFunction::kOr:
      return a != 0 || b != 0;
    case BinaryFunction::kXor:
      return (a != 0) != (b != 0);
    default:
      return absl::UnimplementedError("a function of integers that are known");
  }
}

double OfNumbers(BinaryFunction f, double a, double b) {
  switch (f) {
#define X(Name, formula, da_bits, da, db_bits, db) \
  case BinaryFunction::k##Name:                    \
    return Binary##Name<double>::F(a, b);
    JACSERVE_BINARY(X)
#undef X
  }
  return 0;
}

bool Known(const Facts& facts) { return facts.constant != nullptr; }

}  // namespace

std::vector<double> ConstantNumbers(const HostTensor& tensor) {
  const int64_t n = Elements(tensor.shape);
  if (tensor.dtype == DType::kFloat32) return {tensor.data<float>(), tensor.data<float>() + n};
  if (tensor.dtype == DType::kFloat64) return {tensor.data<double>(), tensor.data<double>() + n};
  const std::vector<int64_t> values = IntsOf(tensor);
  return {values.begin(), values.end()};
}

HostTensor FloatConstant(Shape shape, const std::vector<double>& values) {
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(double));
  if (!values.empty()) std::memcpy(bytes->data(), values.data(), bytes->size());
  return {DType::kFloat64, std::move(shape), std::move(bytes)};
}

HostTensor ConstantOf(DType dtype, Shape shape, const std::vector<double>& values) {
  if (IsFloat(dtype)) return FloatConstant(std::move(shape), values);
  std::vector<int64_t> ints;
  for (double x : values) {
    constexpr double kMost = 9223372036854774784.0;  // the largest double below 2^63
    const double whole = std::trunc(NearestWhole(x));
    ints.push_back(dtype == DType::kBool ? x != 0
                   : std::isnan(whole)   ? 0
                                         : static_cast<int64_t>(std::clamp(whole, -kMost, kMost)));
  }
  return IntTensor(dtype, std::move(shape), ints);
}

double NearestWhole(double x) {
  const double whole = std::nearbyint(x);
  const bool told_apart = std::fabs(x) >= double{1 << 22} || std::fabs(x - whole) > std::fabs(x) * 0x1p-24;
  return told_apart ? x : whole;
}

Folded FoldUnary(UnaryFunction f, UnaryParams params, const Facts& x, DType out) {
  if (!Known(x)) return std::nullopt;
  if (!IsFloat(x.dtype) && f == UnaryFunction::kNeg) {  // exactly
    std::vector<int64_t> ints = IntsOf(*x.constant);
    for (int64_t& value : ints) value = Wrapped(BinaryFunction::kSub, 0, value);
    return std::vector<HostTensor>{IntTensor(out, x.shape, ints)};
  }
  std::vector<double> values = ConstantNumbers(*x.constant);
  for (double& value : values) {
    if (f == UnaryFunction::kFloor || f == UnaryFunction::kCeil) value = NearestWhole(value);
    switch (f) {
#define X(Name, reads, formula, df)                                   \
  case UnaryFunction::k##Name:                                        \
    value = Unary##Name<double>::F(value, params.alpha, params.beta); \
    break;
      JACSERVE_UNARY(X)
#undef X
    }
  }
  return std::vector<HostTensor>{ConstantOf(out, x.shape, values)};
}

Folded FoldBinary(BinaryFunction f, const Facts& a, const Facts& b, const Facts& out) {
  if (!Known(a) || !Known(b) || Elements(out.shape) > kMostFolded) return std::nullopt;
  const std::vector<int64_t> from_a = BroadcastOffsets(a.shape, out.shape),
                             from_b = BroadcastOffsets(b.shape, out.shape);
  if (!IsFloat(a.dtype) && !IsFloat(b.dtype)) {
    const std::vector<int64_t> u = IntsOf(*a.constant), v = IntsOf(*b.constant);
    std::vector<int64_t> values(from_a.size());
    for (size_t p = 0; p < values.size(); ++p) {
      ASSIGN_OR_RETURN(values[p], OfIntegers(f, u[from_a[p]], v[from_b[p]]));
    }
    return std::vector<HostTensor>{IntTensor(out.dtype, out.shape, values)};
  }
  const std::vector<double> u = ConstantNumbers(*a.constant), v = ConstantNumbers(*b.constant);
  std::vector<double> values(from_a.size());
  for (size_t p = 0; p < values.size(); ++p) values[p] = OfNumbers(f, u[from_a[p]], v[from_b[p]]);
  return std::vector<HostTensor>{ConstantOf(out.dtype, out.shape, values)};
}

Folded FoldSelect(const Facts& condition, const Facts& a, const Facts& b, const Facts& out) {
  if (!Known(condition) || !Known(a) || !Known(b) || Elements(out.shape) > kMostFolded) return std::nullopt;
  const std::vector<int64_t> from_c = BroadcastOffsets(condition.shape, out.shape);
  const std::vector<int64_t> from_a = BroadcastOffsets(a.shape, out.shape),
                             from_b = BroadcastOffsets(b.shape, out.shape);
  const std::vector<int64_t> c = IntsOf(*condition.constant);
  const int64_t size = SizeOf(a.constant->dtype);
  auto bytes = std::make_shared<std::vector<std::byte>>(from_c.size() * size);
  for (size_t p = 0; p < from_c.size(); ++p) {
    const std::byte* from =
        c[from_c[p]] != 0 ? a.constant->bytes->data() + from_a[p] * size : b.constant->bytes->data() + from_b[p] * size;
    std::memcpy(bytes->data() + p * size, from, size);
  }
  return std::vector<HostTensor>{{a.constant->dtype, out.shape, std::move(bytes)}};
}

}  // namespace jacserve::worker
