// ReduceSum and ReduceMean: y = scale * sum of x over axes; ct_x = scale * ct_y, repeated along them. ReduceL1,
// ReduceSumSquare and ReduceLogSum are sums of, or functions of, those. The mean of nothing is NaN.
#include <limits>
#include <numeric>

#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/broadcast.h"
#include "worker/ops/op_table.h"
#include "worker/ops/reduce_axes.h"

namespace jacserve::worker {
namespace {

double SumOf(const std::vector<double>& line) { return std::accumulate(line.begin(), line.end(), 0.0); }
double MeanOf(const std::vector<double>& line) { return SumOf(line) / static_cast<double>(line.size()); }

class Reduce : public ReduceOp {
 public:
  Reduce(bool mean, ReduceForm form) : ReduceOp(std::move(form), mean ? MeanOf : SumOf), mean_(mean) {}

  bool PullbackReadsInput(int, int) const override { return false; }
  void Forward(const ForwardArgs& args) const override {
    if (mean_ && count_ == 0) {  // 0 / 0
      args.backend.Fill(args.lanes, Elements(out_[0]), std::numeric_limits<double>::quiet_NaN(), args.y[0]);
      return;
    }
    SumInto(args, args.x[0], args.y[0]);
  }
  void Pullback(int, const PullbackArgs& args, Lanes ct_x) const override {
    args.backend.CopyStrided(args.lanes, in_[0], args.ct_y[0], BroadcastStrides(kept_, in_[0]), ct_x,
                             RowMajorStrides(in_[0]), false, Factor());
  }
  bool HasPushforward() const override { return true; }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    SumInto(args, args.tan_x[0], tan_y[0]);
  }

 private:
  double Factor() const { return mean_ ? 1.0 / static_cast<double>(count_) : 1.0; }
  template <class Args>
  void SumInto(const Args& args, ConstLanes x, Lanes y) const {
    args.backend.Fill(args.lanes, Elements(out_[0]), 0.0, y);
    if (x.data == nullptr) return;
    args.backend.CopyStrided(args.lanes, in_[0], x, RowMajorStrides(in_[0]), y, BroadcastStrides(kept_, in_[0]), true,
                             Factor());
  }
  bool mean_;
};

absl::StatusOr<std::unique_ptr<Op>> Make(bool mean, const GraphNode& node) {
  ASSIGN_OR_RETURN(ReduceForm form, ReadReduceForm(node));
  return std::make_unique<Reduce>(mean, std::move(form));
}

// The node's own axes and attributes, for a sum of `x` in place of its input. Where those name no axis and say that
// then none is reduced, the sum is `x` itself.
absl::StatusOr<std::string> SumLike(Expansion& e, const std::string& x) {
  Expansion::Attributes attributes = e.node().attributes;
  std::string axes = e.x(1);
  if (const auto it = attributes.find("axes"); it != attributes.end()) {
    ASSIGN_OR_RETURN(std::vector<int64_t> named, IntsAttribute(e.node(), "axes", {}));
    axes = e.Ints(std::move(named));
    attributes.erase(it);
  }
  return e.Add("ReduceSum", axes.empty() ? Expansion::Names{x} : Expansion::Names{x, axes}, std::move(attributes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeReduceMean(const GraphNode& node, int) { return Make(true, node); }
absl::StatusOr<std::unique_ptr<Op>> MakeReduceSum(const GraphNode& node, int) { return Make(false, node); }

absl::Status ExpandReduceL1(Expansion& e, int) {
  ASSIGN_OR_RETURN(std::string sum, SumLike(e, e.Add("Abs", {e.x(0)})));
  e.Output(0, std::move(sum));
  return absl::OkStatus();
}
absl::Status ExpandReduceSumSquare(Expansion& e, int) {
  ASSIGN_OR_RETURN(std::string sum, SumLike(e, e.Add("Mul", {e.x(0), e.x(0)})));
  e.Output(0, std::move(sum));
  return absl::OkStatus();
}
absl::Status ExpandReduceLogSum(Expansion& e, int) {
  ASSIGN_OR_RETURN(const std::string sum, SumLike(e, e.x(0)));
  e.Output(0, e.Add("Log", {sum}));
  return absl::OkStatus();
}

}  // namespace jacserve::worker
