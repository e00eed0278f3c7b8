// Transpose: y[q] = x[p] with q_k = p_perm[k]; ct_x[p] = ct_y[q]. On a parameter it is only another order of its axes.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

class Transpose : public Op {
 public:
  explicit Transpose(std::vector<int64_t> perm) : perm_(std::move(perm)) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    const Shape& from = in[0].shape;
    const std::vector<int64_t> perm = Perm(from.size());
    ASSIGN_OR_RETURN(const std::vector<int64_t> sorted, NormalAxes(perm, from.size()));
    if (sorted.size() != from.size() || std::any_of(perm.begin(), perm.end(), [](int64_t a) { return a < 0; })) {
      return absl::InvalidArgumentError(
          absl::StrCat("perm ", ShapeText(perm), " does not fit shape ", ShapeText(from)));
    }
    Shape shape;
    for (int64_t axis : perm) shape.push_back(from[axis]);
    return std::vector<Facts>{{in[0].dtype, std::move(shape)}};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    if (in[0].batch_axis < 0) return std::vector<int>{-1};
    const std::vector<int64_t> perm = Perm(in[0].shape.size());
    return std::vector<int>{static_cast<int>(std::find(perm.begin(), perm.end(), in[0].batch_axis) - perm.begin())};
  }
  std::optional<StridedView> ViewOf(const StridedView& x) const override {
    StridedView y;
    for (int64_t axis : Perm(x.shape.size())) {
      y.shape.push_back(x.shape[axis]);
      y.strides.push_back(x.strides[axis]);
    }
    return y;
  }
  bool PullbackReadsInput(int, int) const override { return false; }
  bool HasPushforward() const override { return true; }

  void Forward(const ForwardArgs& args) const override { Move(args.lanes, args.x[0], args.y[0], args.backend); }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    Move(args.lanes, args.tan_x[0], tan_y[0], args.backend);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.CopyStrided(args.lanes, out_[0], args.ct_y[0], RowMajorStrides(out_[0]), ct_x, InStrides(), false,
                             1.0);
  }

 private:
  void Move(int64_t lanes, ConstLanes x, Lanes y, const Backend& backend) const {
    backend.CopyStrided(lanes, out_[0], x, InStrides(), y, RowMajorStrides(out_[0]), false, 1.0);
  }
  std::vector<int64_t> Perm(size_t rank) const {
    if (!perm_.empty()) return perm_;
    std::vector<int64_t> reversed(rank);
    std::iota(reversed.rbegin(), reversed.rend(), 0);
    return reversed;
  }
  // x's strides in the order of y's axes.
  Shape InStrides() const { return ViewOf({in_[0], RowMajorStrides(in_[0])})->strides; }

  std::vector<int64_t> perm_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeTranspose(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(std::vector<int64_t> perm, IntsAttribute(node, "perm", {}));
  return std::make_unique<Transpose>(std::move(perm));
}

}  // namespace jacserve::worker
