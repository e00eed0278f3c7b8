#include "worker/model/onnx_tensor.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace jacserve::worker {
namespace {

template <class... Parts>
absl::Status Invalid(const std::string& what, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("the graph: ", what, " ", parts...));
}

absl::StatusOr<HostTensor> ReadShape(const std::string& what, const onnx::TensorProto& tensor,
                                     const ImportLimits& limits, int64_t& size_bytes) {
  const std::optional<DType> dtype = DTypeOfOnnx(tensor.data_type());
  if (!dtype.has_value()) {
    return Invalid(what, "has element type ", OnnxTypeName(tensor.data_type()),
                   ", which is not computed with; export the model in float32 or float64");
  }
  if (tensor.dims_size() > limits.rank) {
    return Invalid(what, "has ", tensor.dims_size(), " axes; at most ", limits.rank, " are accepted");
  }
  HostTensor result{.dtype = *dtype, .shape = {tensor.dims().begin(), tensor.dims().end()}, .bytes = nullptr};
  absl::StatusOr<int64_t> bytes = ByteCount(result.shape, *dtype);
  if (!bytes.ok()) return Invalid(what, "is malformed: ", bytes.status().message());
  if (*bytes > limits.tensor_bytes) {
    return Invalid(what, "has ", *bytes, " bytes; at most ", limits.tensor_bytes, " are accepted");
  }
  size_bytes = *bytes;
  return result;
}

// Elements of a typed list as numbers of type T.
template <class T, class List>
std::vector<std::byte> Converted(const List& list) {
  std::vector<std::byte> bytes(static_cast<size_t>(list.size()) * sizeof(T));
  T* out = reinterpret_cast<T*>(bytes.data());
  for (const auto element : list) *out++ = static_cast<T>(element);
  return bytes;
}

std::vector<std::byte> BytesOfTypedList(const onnx::TensorProto& tensor, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return Converted<float>(tensor.float_data());
    case DType::kFloat64:
      return Converted<double>(tensor.double_data());
    case DType::kInt32:
      return Converted<int32_t>(tensor.int32_data());
    case DType::kInt64:
      return Converted<int64_t>(tensor.int64_data());
    case DType::kBool:
      return Converted<bool>(tensor.int32_data());
  }
  return {};
}

std::vector<std::byte> TakeRawData(onnx::TensorProto& tensor) {
  const std::unique_ptr<std::string> raw(tensor.release_raw_data());
  std::vector<std::byte> bytes(raw->size());
  if (!bytes.empty()) std::memcpy(bytes.data(), raw->data(), raw->size());
  return bytes;
}

int64_t TypedElements(const onnx::TensorProto& tensor) {
  return int64_t{tensor.float_data_size()} + tensor.double_data_size() + tensor.int32_data_size() +
         tensor.int64_data_size() + tensor.uint64_data_size() + tensor.string_data_size();
}

}  // namespace

std::optional<DType> DTypeOfOnnx(int32_t data_type) {
  switch (data_type) {
    case onnx::TensorProto::FLOAT:
      return DType::kFloat32;
    case onnx::TensorProto::DOUBLE:
      return DType::kFloat64;
    case onnx::TensorProto::INT32:
      return DType::kInt32;
    case onnx::TensorProto::INT64:
      return DType::kInt64;
    case onnx::TensorProto::BOOL:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

std::string OnnxTypeName(int32_t data_type) {
  const bool known = onnx::TensorProto::DataType_IsValid(data_type);
  return known ? onnx::TensorProto::DataType_Name(data_type) : absl::StrCat("type ", data_type);
}

absl::StatusOr<HostTensor> ReadTensor(const std::string& what, onnx::TensorProto& tensor, const ImportLimits& limits) {
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL || tensor.external_data_size() > 0) {
    return Invalid(what, "keeps its data in another file; save the model as one file (external_data=False)");
  }
  if (tensor.has_segment()) return Invalid(what, "is stored in segments; save it as one tensor");
  int64_t size_bytes = 0;
  ASSIGN_OR_RETURN(HostTensor result, ReadShape(what, tensor, limits, size_bytes));

  const int64_t typed = TypedElements(tensor);
  const bool is_raw = tensor.has_raw_data() && !(tensor.raw_data().empty() && typed > 0);
  if (is_raw && typed > 0) return Invalid(what, "has its data twice, raw and as numbers");
  std::vector<std::byte> bytes = is_raw ? TakeRawData(tensor) : BytesOfTypedList(tensor, result.dtype);
  if (static_cast<int64_t>(bytes.size()) != size_bytes || (!is_raw && typed * SizeOf(result.dtype) != size_bytes)) {
    return Invalid(what, "has ", bytes.size(), " bytes of data where ", std::string(NameOf(result.dtype)), " of shape ",
                   ShapeText(result.shape), " takes ", size_bytes);
  }
  if (result.dtype == DType::kBool) {
    for (std::byte& flag : bytes) flag = flag == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  result.bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return result;
}

}  // namespace jacserve::worker
