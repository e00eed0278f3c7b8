#include "worker/ops/channels.h"

#include "absl/strings/str_cat.h"

namespace jacserve::worker {

absl::StatusOr<Channels> BroadcastChannels(const Shape& parameter, const Shape& x) {
  const auto misfit = [&](const char* how) {
    return absl::StrCat("a parameter of shape ", ShapeText(parameter), how, ShapeText(x));
  };
  if (parameter.size() > x.size()) return absl::InvalidArgumentError(misfit(" for an input of shape "));
  const size_t shift = x.size() - parameter.size();
  size_t begin = x.size(), end = x.size();
  for (size_t axis = parameter.size(); axis-- > 0;) {
    if (parameter[axis] == 1) continue;
    if (parameter[axis] != x[axis + shift]) return absl::InvalidArgumentError(misfit(" for an input of shape "));
    if (begin == end) begin = end = axis + shift + 1;
    for (size_t between = axis + shift + 1; between < begin; ++between) {
      if (x[between] != 1) return absl::UnimplementedError(misfit(" that repeats along a middle axis of "));
    }
    begin = axis + shift;
  }
  const Channels c{Elements(x), Elements({x.begin() + end, x.end()}), Elements({x.begin() + begin, x.begin() + end})};
  return begin == end ? Channels{c.n, std::max<int64_t>(c.n, 1), 1} : c;
}

absl::Status CheckParameterIsShared(const InputFacts& in, size_t i) {
  if (in.has(i) && in[i].batch_axis >= 0) return MixesSamples("its scale, bias or statistics hold a slice per sample");
  return absl::OkStatus();
}

void AddGainTangent(const Channels& c, const PushforwardArgs& args, const ConstLanes& a, const ConstLanes& tan_gain,
                    Lanes tan_y) {
  if (tan_gain.data == nullptr) return;
  const Backend& backend = args.backend;
  for (int64_t lane = 0; lane < args.lanes; ++lane) {
    const Scratch::Frame frame(args.scratch);
    const Lanes product{args.scratch.Take(c.n * backend.element_bytes()), c.n};
    backend.Affine(c, 1, From(a, lane, backend), From(tan_gain, lane, backend), {}, product);
    const Lanes target{static_cast<std::byte*>(tan_y.data) + lane * tan_y.stride * backend.element_bytes()};
    backend.CopyStrided(1, {c.n}, product, {1}, target, {1}, true, 1.0);
  }
}

}  // namespace jacserve::worker
