// Rules of one operator: shapes, the batch axis, forward, pullback. One object per node of the graph.
// In: attributes when made, then facts about inputs. Out: facts about outputs, and formulas in backend primitives.
// Everything after Bind is for ONE sample; lanes are the backend's affair. Written once for all devices.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/shape.h"
#include "worker/backend/backend.h"
#include "worker/model/graph.h"

namespace jacserve::worker {

// What is known of a value before any number is. `shape` is that of the whole batch of `batch` samples.
struct Facts {
  DType dtype = DType::kFloat32;
  Shape shape;
  int batch_axis = -1;                                   // -1: the samples do not show in the shape
  int64_t before_samples = 1;                            // the batch axis is [before_samples, batch, the rest]
  std::shared_ptr<const HostTensor> constant = nullptr;  // contents, when they are known now; never of floats
  std::shared_ptr<const HostTensor> floats = nullptr;    // float contents that the graph itself holds
};

// `present[i]` is false for an optional input that was left out.
struct InputFacts {
  std::vector<Facts> facts;
  std::vector<bool> present;
  int64_t batch = 1;               // samples, as they show in shapes
  std::optional<int> likely_axis;  // of output 0, where sizes leave several axes open to the samples, or none

  const Facts& operator[](size_t i) const { return facts[i]; }
  size_t size() const { return facts.size(); }
  bool has(size_t i) const { return i < present.size() && present[i]; }
};

// A value as a strided view of a parameter's C order: element [i, j, ..] at the dot product with strides.
struct StridedView {
  Shape shape;
  Shape strides;
};

struct ForwardArgs {
  int64_t lanes;
  const std::vector<ConstLanes>& x;
  const std::vector<Lanes>& y;
  Lanes saved;  // SavedElements() a lane, for the pullbacks
  const Backend& backend;
  Scratch& scratch;
};

// Primal operands have no data where the rule said that it does not read them.
struct PullbackArgs {
  int64_t lanes;
  const std::vector<ConstLanes>& x;
  const std::vector<ConstLanes>& y;
  ConstLanes saved;
  const std::vector<ConstLanes>& ct_y;  // no data: no cotangent reaches that output
  const Backend& backend;
  Scratch& scratch;
};

// Tangents of inputs that do not move have no data. Primal operands as for the pullbacks to the inputs that do.
struct PushforwardArgs {
  int64_t lanes;
  const std::vector<ConstLanes>& x;
  const std::vector<ConstLanes>& y;
  ConstLanes saved;
  const std::vector<ConstLanes>& tan_x;
  const Backend& backend;
  Scratch& scratch;
};

// What an operator takes from an input.
enum class InputRole {
  kNumbers,
  kShape,  // numbers that are known when the graph is compiled and that tell the output's shape, nothing else
  kType,   // the type alone: the output is of no sample for the sake of this input
};

class Op {
 public:
  virtual ~Op() = default;

  // Shapes and dtypes of the outputs. InvalidArgument: what does not fit, with the shapes.
  virtual absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const = 0;
  // The batch axis of each output, -1 for none. FailedPrecondition: samples are mixed here.
  virtual absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in,
                                                           const std::vector<Facts>& out) const = 0;
  // Facts::before_samples of the outputs whose batch axis that is, by default as in every input that has one.
  // FailedPrecondition: the inputs' samples lie otherwise.
  virtual absl::StatusOr<int64_t> FollowBeforeSamples(const InputFacts& in, const std::vector<Facts>& out) const;
  virtual InputRole RoleOf(int) const { return InputRole::kNumbers; }
  // Contents of the outputs from constant inputs or shapes alone; nullopt: not known now.
  virtual absl::StatusOr<std::optional<std::vector<HostTensor>>> Fold(const InputFacts& in) const;

  // Sample shapes of inputs and outputs, before anything below is called. Unimplemented: a form not supported.
  virtual absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out);

  virtual bool IsAlias() const { return false; }                          // y is x under another shape
  virtual std::optional<StridedView> ViewOf(const StridedView& x) const;  // y as a view of what x is a view of
  virtual bool DifferentiableIn(int) const { return true; }
  virtual bool PullbackReadsInput(int ct_input, int input) const = 0;  // does the pullback to ct_input read x[input]?
  virtual bool PullbackReadsOutput(int) const { return false; }
  virtual bool PullbackReadsSaved(int) const { return false; }
  virtual int64_t SavedElements(const Backend&) const { return 0; }
  virtual int64_t ScratchElements(const Backend&) const { return 0; }  // of any one call below, for one lane
  virtual double Flops() const { return 0; }                           // of Forward, one lane

  // The layout in which the rows of `input`, a view of a parameter, will be wanted.
  virtual void PreferRows(int, const StridedView&) {}

  virtual void Forward(const ForwardArgs& args) const = 0;  // y = f(x)
  // ct_x = transpose of df/dx[input], applied to ct_y, lane by lane. Overwrites ct_x.
  virtual void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const = 0;
  // Rows of a shared input: the sum over a row's term lanes. By default: pull back each lane, then add.
  virtual void PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const;

  virtual bool HasPushforward() const { return false; }
  // tan_y[k] = sum over the inputs that move of dy[k]/dx[i] applied to tan_x[i], lane by lane. Overwrites tan_y; one
  // without data is not wanted. Reads only what the pullbacks to those inputs read.
  virtual void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const;

 protected:
  std::vector<Shape> in_;  // sample shapes, set by Bind
  std::vector<Shape> out_;
};

// Lanes [begin, ...) of an operand.
ConstLanes From(const ConstLanes& lanes, int64_t begin, const Backend& backend);

// FailedPrecondition in one spelling.
absl::Status MixesSamples(absl::string_view why);

}  // namespace jacserve::worker
