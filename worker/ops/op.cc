#include "worker/ops/op.h"

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace jacserve::worker {

absl::StatusOr<std::optional<std::vector<HostTensor>>> Op::Fold(const InputFacts&) const { return std::nullopt; }

absl::StatusOr<int64_t> Op::FollowBeforeSamples(const InputFacts& in, const std::vector<Facts>&) const {
  std::optional<int64_t> before;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in.has(i) || in[i].batch_axis < 0 || RoleOf(static_cast<int>(i)) == InputRole::kType) continue;
    if (before.value_or(in[i].before_samples) != in[i].before_samples) {
      return MixesSamples("its inputs hold the samples in another order along one axis");
    }
    before = in[i].before_samples;
  }
  return before.value_or(1);
}

absl::Status Op::Bind(const InputFacts&, const std::vector<Shape>& in, const std::vector<Shape>& out) {
  in_ = in;
  out_ = out;
  return absl::OkStatus();
}

std::optional<StridedView> Op::ViewOf(const StridedView&) const { return std::nullopt; }

void Op::PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const {
  const int64_t n = Elements(in_[input]);
  const Scratch::Frame frame(args.scratch);
  const Lanes ct_x{args.scratch.Take(terms.per_row * n * args.backend.element_bytes()), n};
  const auto all_from = [&](const std::vector<ConstLanes>& operands, int64_t begin) {
    std::vector<ConstLanes> result;
    for (const ConstLanes& operand : operands) result.push_back(From(operand, begin, args.backend));
    return result;
  };
  RowSink sink = rows;
  for (int64_t row = 0; row < terms.rows; ++row) {
    const int64_t begin = row * terms.per_row;
    const auto x = all_from(args.x, begin), y = all_from(args.y, begin), ct_y = all_from(args.ct_y, begin);
    Pullback(input, {terms.per_row, x, y, From(args.saved, begin, args.backend), ct_y, args.backend, args.scratch},
             ct_x);
    sink.data = static_cast<std::byte*>(rows.data) + row * rows.row_stride * args.backend.element_bytes();
    args.backend.SumTerms({1, terms.per_row}, ct_x, sink);
  }
}

void Op::Pushforward(const PushforwardArgs&, const std::vector<Lanes>&) const {
  JACSERVE_CHECK(!"an operator without a pushforward was asked for one");
}

ConstLanes From(const ConstLanes& lanes, int64_t begin, const Backend& backend) {
  ConstLanes result = lanes;
  if (lanes.data == nullptr) return result;
  if (lanes.index != nullptr) {
    result.index += begin;
  } else {
    result.data = static_cast<const std::byte*>(lanes.data) + begin * lanes.stride * backend.element_bytes();
  }
  return result;
}

absl::Status MixesSamples(absl::string_view why) { return absl::FailedPreconditionError(why); }

}  // namespace jacserve::worker
