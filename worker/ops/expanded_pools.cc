// Pools that are graphs of others. GlobalAveragePool: the mean over space. GlobalMaxPool: a max pool with a window of
// all of it. LpPool: (count * mean over the window of |x|^p)^(1/p). GlobalLpPool: the same over all of space.
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"
#include "worker/ops/power.h"
#include "worker/ops/window.h"

namespace jacserve::worker {
namespace {

absl::Status CheckSpace(const Expansion& e) {
  if (!e.in().has(0)) return absl::InvalidArgumentError("needs an input");
  if (e.shape(0).size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat("an input of shape ", ShapeText(e.shape(0)), " has no channels"));
  }
  return absl::OkStatus();
}

std::vector<int64_t> SpatialAxes(const Expansion& e) {
  std::vector<int64_t> axes;
  for (size_t axis = 2; axis < e.shape(0).size(); ++axis) axes.push_back(static_cast<int64_t>(axis));
  return axes;
}

// A value of x's shape with all of space as one axis.
std::string FlatSpace(Expansion& e) {
  const Shape& x = e.shape(0);
  return e.Add("Reshape", {e.x(0), e.Ints({x[0], x[1], Elements({x.begin() + 2, x.end()})})},
               {{"allowzero", int64_t{1}}});
}

// The exponent: a float in opset 1.
absl::StatusOr<double> Exponent(const GraphNode& node, int opset) {
  double p = 2.0;
  if (opset < 2) {
    ASSIGN_OR_RETURN(p, FloatAttribute(node, "p", 2.0));
  } else {
    ASSIGN_OR_RETURN(const int64_t whole, IntAttribute(node, "p", 2));
    p = static_cast<double>(whole);
  }
  if (!(p > 0)) return absl::InvalidArgumentError(absl::StrCat("p ", p, " must be positive"));
  return p;
}

}  // namespace

absl::Status ExpandGlobalAveragePool(Expansion& e, int) {
  RETURN_IF_ERROR(CheckSpace(e));
  if (e.shape(0).size() == 2) {
    e.Output(0, e.x(0));
  } else {
    e.Output(0, e.Add("ReduceMean", {e.x(0), e.Ints(SpatialAxes(e))}));
  }
  return absl::OkStatus();
}

absl::Status ExpandGlobalMaxPool(Expansion& e, int) {
  RETURN_IF_ERROR(CheckSpace(e));
  const Shape& x = e.shape(0);
  const int64_t size = Elements({x.begin() + 2, x.end()});
  if (size == 0) return absl::InvalidArgumentError(absl::StrCat("no maximum over an input of shape ", ShapeText(x)));
  Shape shape = {x[0], x[1]};
  shape.resize(x.size(), 1);
  const std::string y = e.Add("MaxPool", {FlatSpace(e)}, {{"kernel_shape", std::vector<int64_t>{size}}});
  e.Output(0, e.Add("Reshape", {y, e.Ints(shape)}, {{"allowzero", int64_t{1}}}));
  return absl::OkStatus();
}

absl::Status ExpandGlobalLpPool(Expansion& e, int opset) {
  RETURN_IF_ERROR(CheckSpace(e));
  ASSIGN_OR_RETURN(const double p, Exponent(e.node(), opset));
  std::string powers = AbsolutePower(e, e.x(0), p);
  if (e.shape(0).size() > 2) powers = e.Add("ReduceSum", {powers, e.Ints(SpatialAxes(e))});
  e.Output(0, PowerOrZero(e, powers, 1.0 / p));
  return absl::OkStatus();
}

absl::Status ExpandLpPool(Expansion& e, int opset) {
  RETURN_IF_ERROR(CheckSpace(e));
  ASSIGN_OR_RETURN(const double p, Exponent(e.node(), opset));
  ASSIGN_OR_RETURN(const WindowAttributes window, WindowAttributes::Read(e.node()));
  ASSIGN_OR_RETURN(const WindowGeometry g, window.Geometry(e.shape(0), window.kernel_shape()));
  // The same windows with all padding written out: then every one counts the whole kernel.
  const size_t axes = window.kernel_shape().size();
  std::vector<int64_t> strides, dilations, begins, ends;
  for (size_t axis = kSpatialAxes - axes; axis < kSpatialAxes; ++axis) {
    strides.push_back(g.stride[axis]);
    dilations.push_back(g.dilation[axis]);
    begins.push_back(g.pad_begin[axis]);
    const int64_t reach = (g.out[axis] - 1) * g.stride[axis] + (g.kernel[axis] - 1) * g.dilation[axis] + 1;
    ends.push_back(std::max<int64_t>(reach - g.in[axis] - g.pad_begin[axis], 0));
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  const std::string mean = e.Add("AveragePool", {AbsolutePower(e, e.x(0), p)},
                                 {{"kernel_shape", window.kernel_shape()},
                                  {"strides", strides},
                                  {"dilations", dilations},
                                  {"pads", begins},
                                  {"count_include_pad", int64_t{1}}});
  const auto count = static_cast<double>(WindowGeometry::Volume(g.kernel));
  e.Output(0, PowerOrZero(e, e.Add("Mul", {mean, e.Number(count)}), 1.0 / p));
  return absl::OkStatus();
}

}  // namespace jacserve::worker
