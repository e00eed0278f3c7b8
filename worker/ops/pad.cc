// Pad: y = x with `before` and `after` added along each axis (taken away where negative). Constant: what is added holds
// one number, which gets the sum of its cotangents. Edge, reflect, wrap: it repeats elements of x, which add them up.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/lanes.h"
#include "worker/ops/op_table.h"
#include "worker/ops/parts.h"

namespace jacserve::worker {
namespace {

enum class Mode { kConstant, kEdge, kReflect, kWrap };

// y[begin + j] = x[first + j * step] for j < count, along one axis.
struct Run {
  int64_t begin = 0, count = 0, first = 0, step = 1;
};

int64_t Modulo(int64_t a, int64_t n) { return (a % n + n) % n; }

// Where element i of an axis of size n is taken from when it may lie outside; -1: from nowhere.
int64_t Source(Mode mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  if (mode == Mode::kConstant) return -1;
  if (mode == Mode::kEdge) return std::clamp<int64_t>(i, 0, n - 1);
  if (mode == Mode::kWrap) return Modulo(i, n);
  if (n == 1) return 0;
  const int64_t place = Modulo(i, 2 * (n - 1));
  return place < n ? place : 2 * (n - 1) - place;
}

std::vector<Run> Runs(Mode mode, int64_t n, int64_t before, int64_t out) {
  std::vector<Run> runs;
  for (int64_t j = 0; j < out; ++j) {
    const int64_t from = Source(mode, j - before, n);
    if (from < 0) continue;
    if (!runs.empty() && runs.back().begin + runs.back().count == j) {
      Run& run = runs.back();
      const int64_t step = from - (run.first + (run.count - 1) * run.step);
      if (run.count == 1) run.step = step;
      if (run.step == step) {
        ++run.count;
        continue;
      }
    }
    runs.push_back({j, 1, from, 1});
  }
  return runs;
}

class Pad : public PartsOp {
 public:
  Pad(Mode mode, std::optional<std::vector<int64_t>> pads, double value)
      : mode_(mode), pads_(std::move(pads)), value_(value) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0)) return absl::InvalidArgumentError("needs an input");
    ASSIGN_OR_RETURN(const Pads pads, ReadPads(in));
    Facts y{in[0].dtype, in[0].shape};
    for (size_t axis = 0; axis < y.shape.size(); ++axis) {
      y.shape[axis] += pads.before[axis] + pads.after[axis];
      const bool from_nothing = mode_ != Mode::kConstant && in[0].shape[axis] == 0 && y.shape[axis] > 0;
      if (y.shape[axis] < 0 || from_nothing) {
        return absl::InvalidArgumentError(absl::StrCat("pads ", ShapeText(pads.before), " and ", ShapeText(pads.after),
                                                       " do not fit shape ", ShapeText(in[0].shape)));
      }
    }
    RETURN_IF_ERROR(CheckRepeats(in[0].shape, pads));
    if (in.has(2) && Elements(in[2].shape) != 1) return absl::InvalidArgumentError("the value is not one number");
    return std::vector<Facts>{std::move(y)};
  }
  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    ASSIGN_OR_RETURN(const Pads pads, ReadPads(in));
    const int axis = in[0].batch_axis;
    if (axis >= 0 && (pads.before[axis] != 0 || pads.after[axis] != 0)) return MixesSamples("it adds or drops samples");
    return std::vector<int>{axis};
  }
  bool DifferentiableIn(int input) const override { return input == 0 || (input == 2 && mode_ == Mode::kConstant); }
  bool EachElementOnce() const override { return mode_ == Mode::kConstant; }

  std::vector<Part> Parts(const InputFacts& facts, const std::vector<Shape>& in,
                          const std::vector<Shape>& out) const override {
    const Pads pads = *ReadPads(facts);
    std::vector<Part> parts = {{0, {}, {}, {}, 0, 0}};
    const Shape x_strides = RowMajorStrides(in[0]), y_strides = RowMajorStrides(out[0]);
    for (size_t axis = 0; axis < in[0].size(); ++axis) {
      std::vector<Part> longer;
      for (const Run& run : Runs(mode_, in[0][axis], pads.before[axis], out[0][axis])) {
        for (Part part : parts) {
          part.shape.push_back(run.count);
          part.x_strides.push_back(run.step * x_strides[axis]);
          part.y_strides.push_back(y_strides[axis]);
          part.x_offset += run.first * x_strides[axis];
          part.y_offset += run.begin * y_strides[axis];
          longer.push_back(std::move(part));
        }
      }
      parts = std::move(longer);
    }
    return parts;
  }
  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(PartsOp::Bind(facts, in, out));
    ASSIGN_OR_RETURN(const Pads pads, ReadPads(facts));
    if (mode_ == Mode::kConstant) SetBorders(pads);
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const override {
    if (mode_ == Mode::kConstant && (value_ != 0 || in.has(2))) return std::nullopt;
    return PartsOp::Fold(in);
  }

  void Forward(const ForwardArgs& args) const override {
    PartsOp::Forward(args);
    if (args.x.size() > 2 && args.x[2].data != nullptr) {
      FillBorders(args.lanes, args.x[2], args.y[0], args.backend);
    } else if (value_ != 0 && !borders_.empty()) {
      const Scratch::Frame frame(args.scratch);
      const Lanes value{args.scratch.Take(args.backend.element_bytes()), 0};
      args.backend.Fill(1, 1, value_, value);
      FillBorders(args.lanes, value, args.y[0], args.backend);
    }
  }
  int64_t ScratchElements(const Backend&) const override { return 1; }
  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    if (input == 0) return PartsOp::Pullback(input, args, ct_x);
    args.backend.Fill(args.lanes, 1, 0.0, ct_x);
    for (const Part& border : borders_) {
      args.backend.CopyStrided(args.lanes, border.shape, At(args.ct_y[0], border.y_offset, args.backend),
                               border.y_strides, ct_x, Shape(border.shape.size(), 0), true, 1.0);
    }
  }
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override {
    PartsOp::Pushforward(args, tan_y);
    if (args.tan_x.size() > 2 && args.tan_x[2].data != nullptr) {
      FillBorders(args.lanes, args.tan_x[2], tan_y[0], args.backend);
    }
  }

 private:
  struct Pads {
    std::vector<int64_t> before, after;  // per axis
  };
  absl::StatusOr<Pads> ReadPads(const InputFacts& in) const {
    const size_t rank = in[0].shape.size();
    std::vector<int64_t> list = pads_.value_or(std::vector<int64_t>{}), axes;
    if (!pads_) {
      ASSIGN_OR_RETURN(list, ConstantInts(in, 1, "the pads"));
    }
    if (in.has(3)) {
      ASSIGN_OR_RETURN(axes, ConstantInts(in, 3, "the axes to pad"));
      RETURN_IF_ERROR(NormalAxes(axes, rank).status());
    } else {
      for (size_t axis = 0; axis < rank; ++axis) axes.push_back(static_cast<int64_t>(axis));
    }
    constexpr int64_t kMostPad = int64_t{1} << 24;
    const bool sane =
        std::all_of(list.begin(), list.end(), [](int64_t pad) { return -kMostPad < pad && pad < kMostPad; });
    if (list.size() != 2 * axes.size() || !sane) {
      return absl::InvalidArgumentError(absl::StrCat("pads ", ShapeText(list), " do not fit ", axes.size(), " axes"));
    }
    Pads pads{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
    for (size_t k = 0; k < axes.size(); ++k) {
      ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(axes[k], rank));
      pads.before[axis] = list[k];
      pads.after[axis] = list[k + axes.size()];
    }
    return pads;
  }

  // How often reflect and wrap go through their input: each time is a copy of its own.
  absl::Status CheckRepeats(const Shape& x, const Pads& pads) const {
    if (mode_ == Mode::kConstant) return absl::OkStatus();
    double copies = 1;
    for (size_t axis = 0; axis < x.size(); ++axis) {
      const auto period = static_cast<double>(std::max<int64_t>(x[axis] - 1, 1));
      copies *= 1 + static_cast<double>(std::abs(pads.before[axis]) + std::abs(pads.after[axis])) / period;
    }
    constexpr double kMostCopies = 1 << 16;
    if (copies <= kMostCopies || mode_ == Mode::kEdge) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat("pads ", ShapeText(pads.before), " and ", ShapeText(pads.after),
                                                 " that go through shape ", ShapeText(x), " too often"));
  }

  // What is added, as boxes that do not overlap: before and after along each axis, inside along those that came first.
  void SetBorders(const Pads& pads) {
    const Shape& y = out_[0];
    const Shape strides = RowMajorStrides(y);
    Shape begin(y.size(), 0), count = y;
    borders_.clear();
    const auto add = [&](size_t axis, int64_t from, int64_t size) {
      Part border{0, count, {}, strides};
      border.shape[axis] = size;
      for (size_t a = 0; a < y.size(); ++a) border.y_offset += (a == axis ? from : begin[a]) * strides[a];
      if (Elements(border.shape) > 0) borders_.push_back(std::move(border));
    };
    for (size_t axis = 0; axis < y.size(); ++axis) {
      const int64_t before = std::clamp<int64_t>(pads.before[axis], 0, y[axis]);
      const int64_t after = std::clamp<int64_t>(pads.after[axis], 0, y[axis] - before);
      add(axis, 0, before);
      add(axis, y[axis] - after, after);
      begin[axis] = before;
      count[axis] = y[axis] - before - after;
    }
  }
  void FillBorders(int64_t lanes, ConstLanes value, Lanes y, const Backend& backend) const {
    for (const Part& border : borders_) {
      backend.CopyStrided(lanes, border.shape, value, Shape(border.shape.size(), 0), At(y, border.y_offset, backend),
                          border.y_strides, false, 1.0);
    }
  }

  Mode mode_;
  std::optional<std::vector<int64_t>> pads_;
  double value_;
  std::vector<Part> borders_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakePad(const GraphNode& node, int opset) {
  ASSIGN_OR_RETURN(const std::string name, StringAttribute(node, "mode", "constant"));
  Mode mode = Mode::kConstant;
  if (name == "edge") {
    mode = Mode::kEdge;
  } else if (name == "reflect") {
    mode = Mode::kReflect;
  } else if (name == "wrap") {
    mode = Mode::kWrap;
  } else if (name != "constant") {
    return absl::InvalidArgumentError(absl::StrCat("there is no mode ", name));
  }
  if (opset >= 11) return std::make_unique<Pad>(mode, std::nullopt, 0.0);
  ASSIGN_OR_RETURN(std::vector<int64_t> pads, IntsAttribute(node, "pads", {}));
  ASSIGN_OR_RETURN(const double value, FloatAttribute(node, "value", 0.0f));
  return std::make_unique<Pad>(mode, std::move(pads), value);
}

}  // namespace jacserve::worker
