#include "worker/ops/attributes.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace jacserve::worker {
namespace {

template <class T>
absl::StatusOr<T> Attribute(const GraphNode& node, const std::string& name, T fallback, absl::string_view type) {
  const auto it = node.attributes.find(name);
  if (it == node.attributes.end()) return fallback;
  if (const T* value = std::get_if<T>(&it->second)) return *value;
  return absl::InvalidArgumentError(absl::StrCat("attribute ", name, " is not ", type));
}

}  // namespace

absl::StatusOr<int64_t> IntAttribute(const GraphNode& node, const std::string& name, int64_t fallback) {
  return Attribute<int64_t>(node, name, fallback, "an integer");
}
absl::StatusOr<double> FloatAttribute(const GraphNode& node, const std::string& name, double fallback) {
  if (!node.attributes.contains(name)) return fallback;
  ASSIGN_OR_RETURN(const float value, Attribute<float>(node, name, 0.0f, "a float"));
  char text[64];
  const auto written = std::to_chars(std::begin(text), std::end(text), value);
  double decimal = value;
  std::from_chars(std::begin(text), written.ptr, decimal);
  return decimal;
}
absl::StatusOr<std::string> StringAttribute(const GraphNode& node, const std::string& name, std::string fallback) {
  return Attribute<std::string>(node, name, std::move(fallback), "a string");
}
absl::StatusOr<std::vector<int64_t>> IntsAttribute(const GraphNode& node, const std::string& name,
                                                   std::vector<int64_t> fallback) {
  return Attribute<std::vector<int64_t>>(node, name, std::move(fallback), "a list of integers");
}
absl::StatusOr<std::vector<float>> FloatsAttribute(const GraphNode& node, const std::string& name,
                                                   std::vector<float> fallback) {
  return Attribute<std::vector<float>>(node, name, std::move(fallback), "a list of floats");
}

absl::StatusOr<int64_t> NormalAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " is outside a value of rank ", rank));
  }
  return axis < 0 ? axis + rank : axis;
}

absl::StatusOr<std::vector<int64_t>> NormalAxes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) {
    ASSIGN_OR_RETURN(axis, NormalAxis(axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    return absl::InvalidArgumentError(absl::StrCat("axes ", ShapeText(axes), " name one axis twice"));
  }
  return axes;
}

absl::StatusOr<std::vector<int64_t>> ConstantInts(const InputFacts& in, size_t i, absl::string_view what) {
  if (!in.has(i)) return absl::InvalidArgumentError(absl::StrCat(what, " is missing"));
  const Facts& facts = in[i];
  if (IsFloat(facts.dtype)) return absl::InvalidArgumentError(absl::StrCat(what, " must hold integers"));
  if (facts.constant == nullptr) {
    return absl::UnimplementedError(absl::StrCat(what, " is not known before numbers are"));
  }
  return IntsOf(*facts.constant);
}

absl::StatusOr<std::vector<double>> ConstantFloats(const InputFacts& in, size_t i, absl::string_view what) {
  if (!in.has(i)) return absl::InvalidArgumentError(absl::StrCat(what, " are missing"));
  const Facts& facts = in[i];
  if (!IsFloat(facts.dtype)) return absl::InvalidArgumentError(absl::StrCat(what, " must be floats"));
  if (facts.floats == nullptr) {
    return absl::UnimplementedError(absl::StrCat(what, " are not known before numbers are"));
  }
  const HostTensor& tensor = *facts.floats;
  std::vector<double> values(Elements(tensor.shape));
  for (size_t p = 0; p < values.size(); ++p) {
    values[p] = tensor.dtype == DType::kFloat64 ? tensor.data<double>()[p] : double{tensor.data<float>()[p]};
  }
  return values;
}

absl::StatusOr<std::vector<double>> KnownNumbers(const InputFacts& in, size_t i, absl::string_view what) {
  if (in.has(i) && IsFloat(in[i].dtype)) return ConstantFloats(in, i, what);
  ASSIGN_OR_RETURN(const std::vector<int64_t> values, ConstantInts(in, i, what));
  return std::vector<double>(values.begin(), values.end());
}

std::vector<int64_t> IntsOf(const HostTensor& tensor) {
  std::vector<int64_t> values(Elements(tensor.shape));
  for (size_t p = 0; p < values.size(); ++p) {
    switch (tensor.dtype) {
      case DType::kInt64:
        values[p] = tensor.data<int64_t>()[p];
        break;
      case DType::kInt32:
        values[p] = tensor.data<int32_t>()[p];
        break;
      default:
        values[p] = tensor.data<uint8_t>()[p];
    }
  }
  return values;
}

HostTensor IntTensor(DType dtype, Shape shape, const std::vector<int64_t>& values) {
  JACSERVE_CHECK(!IsFloat(dtype));
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * SizeOf(dtype));
  for (size_t p = 0; p < values.size(); ++p) {
    if (dtype == DType::kInt32) {
      const auto value = static_cast<int32_t>(values[p]);
      std::memcpy(bytes->data() + p * sizeof value, &value, sizeof value);
    } else if (dtype == DType::kBool) {
      (*bytes)[p] = static_cast<std::byte>(values[p] != 0);
    } else {
      std::memcpy(bytes->data() + p * sizeof(int64_t), &values[p], sizeof(int64_t));
    }
  }
  return {dtype, std::move(shape), std::move(bytes)};
}

}  // namespace jacserve::worker
