#include "worker/ops/parts.h"

#include <algorithm>
#include <cstring>

#include "common/status.h"
#include "worker/ops/lanes.h"

namespace jacserve::worker {
namespace {

// Bytes of one part, moved on the host.
void CopyPart(const Part& part, const HostTensor& x, int64_t element_bytes, std::byte* y) {
  const Shape steps = RowMajorStrides(part.shape);
  for (int64_t p = 0; p < Elements(part.shape); ++p) {
    int64_t from = part.x_offset, to = part.y_offset, rest = p;
    for (size_t axis = 0; axis < part.shape.size(); ++axis) {
      from += rest / steps[axis] * part.x_strides[axis];
      to += rest / steps[axis] * part.y_strides[axis];
      rest %= steps[axis];
    }
    std::memcpy(y + to * element_bytes, x.bytes->data() + from * element_bytes, element_bytes);
  }
}

}  // namespace

absl::Status PartsOp::Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) {
  RETURN_IF_ERROR(Op::Bind(facts, in, out));
  parts_ = Parts(facts, in, out);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::vector<HostTensor>>> PartsOp::Fold(const InputFacts& in) const {
  for (size_t i = 0; i < in.size(); ++i) {
    if (in.has(i) && in[i].constant == nullptr) return std::nullopt;
  }
  ASSIGN_OR_RETURN(const std::vector<Facts> out, InferShapes(in));
  constexpr int64_t kMostFolded = int64_t{1} << 22;  // more is no arithmetic of shapes
  for (const Facts& facts : out) {
    ASSIGN_OR_RETURN(const int64_t elements, ElementCount(facts.shape));
    if (elements > kMostFolded) return std::nullopt;
  }
  std::vector<Shape> in_shapes, out_shapes;
  for (const Facts& facts : in.facts) in_shapes.push_back(facts.shape);
  const DType dtype = in[0].constant->dtype;  // of known floats it is not that of Facts
  std::vector<std::shared_ptr<std::vector<std::byte>>> bytes;
  for (const Facts& facts : out) {
    ASSIGN_OR_RETURN(const int64_t size_bytes, ByteCount(facts.shape, dtype));
    bytes.push_back(std::make_shared<std::vector<std::byte>>(size_bytes));
    out_shapes.push_back(facts.shape);
  }
  for (const Part& part : Parts(in, in_shapes, out_shapes)) {
    CopyPart(part, *in[part.input].constant, SizeOf(dtype), bytes[part.output]->data());
  }
  std::vector<HostTensor> result;
  for (size_t k = 0; k < out.size(); ++k) result.push_back({dtype, out[k].shape, bytes[k]});
  return result;
}

void PartsOp::Copy(int64_t lanes, const std::vector<ConstLanes>& x, const std::vector<Lanes>& y,
                   const Backend& backend) const {
  for (size_t k = 0; k < y.size(); ++k) {
    if (y[k].data == nullptr) continue;  // a tangent that nobody wants
    int64_t covered = 0;
    for (const Part& part : parts_) {
      if (part.output == static_cast<int>(k) && x[part.input].data != nullptr) covered += Elements(part.shape);
    }
    if (covered < Elements(out_[k])) backend.Fill(lanes, Elements(out_[k]), 0.0, y[k]);
  }
  for (const Part& part : parts_) {
    if (x[part.input].data == nullptr || y[part.output].data == nullptr) continue;
    backend.CopyStrided(lanes, part.shape, At(x[part.input], part.x_offset, backend), part.x_strides,
                        At(y[part.output], part.y_offset, backend), part.y_strides, false, 1.0);
  }
}

void PartsOp::Forward(const ForwardArgs& args) const { Copy(args.lanes, args.x, args.y, args.backend); }

void PartsOp::Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const {
  Copy(args.lanes, args.tan_x, tan_y, args.backend);
}

void PartsOp::Pullback(int input, const PullbackArgs& args, Lanes ct_x) const {
  const auto reached = [&](const Part& part) { return part.input == input && args.ct_y[part.output].data != nullptr; };
  int64_t covered = 0;
  for (const Part& part : parts_) {
    if (reached(part)) covered += Elements(part.shape);
  }
  const int64_t n = Elements(in_[input]);
  if (!EachElementOnce() || covered < n) args.backend.Fill(args.lanes, n, 0.0, ct_x);
  for (const Part& part : parts_) {
    if (!reached(part)) continue;
    args.backend.CopyStrided(args.lanes, part.shape, At(args.ct_y[part.output], part.y_offset, args.backend),
                             part.y_strides, At(ct_x, part.x_offset, args.backend), part.x_strides, !EachElementOnce(),
                             1.0);
  }
}

}  // namespace jacserve::worker
