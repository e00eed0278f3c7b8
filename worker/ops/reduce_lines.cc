#include "worker/ops/reduce_lines.h"

#include <algorithm>

#include "common/status.h"

namespace jacserve::worker {
namespace {

// One lane by itself: calls for it take lane 0.
ConstLanes Lane(const ConstLanes& lanes, int64_t lane, const Backend& backend) {
  if (lanes.data == nullptr) return {};
  const int64_t at = lanes.stride * (lanes.index ? lanes.index[lane] : lane);
  return {static_cast<const std::byte*>(lanes.data) + at * backend.element_bytes(), 0, nullptr};
}
Lanes LaneOf(const Lanes& lanes, int64_t lane, const Backend& backend) {
  return {static_cast<std::byte*>(lanes.data) + lane * lanes.stride * backend.element_bytes(), 0};
}

// What is kept for one lane, at its index among the records.
template <class Args>
void* SavedOf(const Args& args, int64_t lane) {
  if (args.saved.data == nullptr) return nullptr;
  const int64_t at = args.saved.stride * (args.saved.index ? args.saved.index[lane] : lane);
  return const_cast<std::byte*>(static_cast<const std::byte*>(args.saved.data)) + at * args.backend.element_bytes();
}

}  // namespace

absl::Status ReduceLines::Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) {
  RETURN_IF_ERROR(ReduceOp::Bind(facts, in, out));
  const Shape& x = in[0];
  const auto reduced = [&](size_t axis) {
    return std::binary_search(axes_.begin(), axes_.end(), static_cast<int64_t>(axis));
  };
  // outer, then reduced axes, then inner: an axis that breaks this order makes it a copy.
  bool begun = false, ended = false;
  outer_ = inner_ = 1;
  n_ = count_;
  for (size_t axis = 0; axis < x.size(); ++axis) {
    if (x[axis] == 1) continue;
    if (reduced(axis)) {
      begun = true;
      if (ended) moved_ = true;
    } else {
      if (begun) ended = true;
      (begun ? inner_ : outer_) *= x[axis];
    }
  }
  if (!moved_) return absl::OkStatus();
  outer_ = Elements(kept_);
  inner_ = 1;
  const Shape strides = RowMajorStrides(x);
  for (const bool wanted : {false, true}) {
    for (size_t axis = 0; axis < x.size(); ++axis) {
      if (reduced(axis) != wanted) continue;
      moved_shape_.push_back(x[axis]);
      moved_strides_.push_back(strides[axis]);
    }
  }
  return absl::OkStatus();
}

int64_t ReduceLines::ScratchElements(const Backend& backend) const {
  return LineScratch() + (moved_ ? 2 * Size() : 0) + SavedElements(backend);
}

Lanes ReduceLines::Take(const Line& line, int64_t n) const {
  return {line.scratch.Take(n * line.backend.element_bytes()), 0};
}

void ReduceLines::SumLines(const Line& line, ConstLanes x, Lanes y) const {
  line.backend.Fill(1, Lines(), 0.0, y);
  line.backend.CopyStrided(1, shape(), x, own(), y, repeated(), true, 1.0);
}

ConstLanes ReduceLines::Arranged(ConstLanes x, const Backend& backend, Scratch& scratch) const {
  if (!moved_ || x.data == nullptr) return x;
  const Lanes copy{scratch.Take(Size() * backend.element_bytes()), 0};
  backend.CopyStrided(1, moved_shape_, x, moved_strides_, copy, RowMajorStrides(moved_shape_), false, 1.0);
  return copy;
}

void ReduceLines::Forward(const ForwardArgs& args) const {
  for (int64_t lane = 0; lane < args.lanes; ++lane) {
    const Scratch::Frame frame(args.scratch);
    const ConstLanes x = Arranged(Lane(args.x[0], lane, args.backend), args.backend, args.scratch);
    Reduce({x, {}, LaneOf(args.saved, lane, args.backend).data, args.backend, args.scratch},
           LaneOf(args.y[0], lane, args.backend));
  }
}

void ReduceLines::Pullback(int, const PullbackArgs& args, Lanes ct_x) const {
  for (int64_t lane = 0; lane < args.lanes; ++lane) {
    const Scratch::Frame frame(args.scratch);
    const ConstLanes x = Arranged(Lane(args.x[0], lane, args.backend), args.backend, args.scratch);
    const Line here{x, Lane(args.y[0], lane, args.backend), SavedOf(args, lane), args.backend, args.scratch};
    const Lanes to = LaneOf(ct_x, lane, args.backend);
    if (!moved_) {
      Pull(here, Lane(args.ct_y[0], lane, args.backend), to);
      continue;
    }
    const Lanes copy = Take(here, Size());
    Pull(here, Lane(args.ct_y[0], lane, args.backend), copy);
    args.backend.CopyStrided(1, moved_shape_, copy, RowMajorStrides(moved_shape_), to, moved_strides_, false, 1.0);
  }
}

void ReduceLines::Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const {
  if (args.tan_x[0].data == nullptr) {
    args.backend.Fill(args.lanes, Lines(), 0.0, tan_y[0]);
    return;
  }
  for (int64_t lane = 0; lane < args.lanes; ++lane) {
    const Scratch::Frame frame(args.scratch);
    const ConstLanes x = Arranged(Lane(args.x[0], lane, args.backend), args.backend, args.scratch);
    const ConstLanes tan = Arranged(Lane(args.tan_x[0], lane, args.backend), args.backend, args.scratch);
    Push({x, Lane(args.y[0], lane, args.backend), SavedOf(args, lane), args.backend, args.scratch}, tan,
         LaneOf(tan_y[0], lane, args.backend));
  }
}

}  // namespace jacserve::worker
