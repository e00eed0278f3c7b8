#include "client/cpp/array_io/npy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "client/cpp/text.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxHeaderBytes = size_t{1} << 20;
constexpr size_t kMaxAxes = 64;  // as many as numpy allows

// Reads the header's Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  // False when the text is anything but such a dictionary with each key once.
  bool Parse(std::string& descr, bool& fortran_order, Shape& shape) {
    bool has_descr = false, has_order = false, has_shape = false;
    if (!Take('{')) return false;
    while (!Take('}')) {
      std::string key;
      if (!TakeString(key) || !Take(':')) return false;
      if (key == "descr" && !has_descr) {
        has_descr = TakeString(descr);
        if (!has_descr) return false;
      } else if (key == "fortran_order" && !has_order) {
        has_order = TakeBool(fortran_order);
        if (!has_order) return false;
      } else if (key == "shape" && !has_shape) {
        has_shape = TakeShape(shape);
        if (!has_shape) return false;
      } else {
        return false;
      }
      if (!Take(',') && !Peek('}')) return false;
    }
    SkipSpace();
    return rest_.empty() && has_descr && has_order && has_shape;
  }

 private:
  void SkipSpace() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }
  bool Peek(char c) {
    SkipSpace();
    return !rest_.empty() && rest_[0] == c;
  }
  bool Take(char c) {
    if (!Peek(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool Consume(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool TakeString(std::string& out) {
    SkipSpace();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return false;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return false;
    out = std::string(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool TakeBool(bool& out) {
    SkipSpace();
    out = Consume("True");
    return out || Consume("False");
  }
  bool TakeShape(Shape& out) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      SkipSpace();
      const size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
      int64_t axis = 0;
      if (digits == 0 || !absl::SimpleAtoi(std::string(rest_.substr(0, digits)), &axis) || out.size() == kMaxAxes)
        return false;
      rest_.remove_prefix(digits);
      Consume("L");  // Python 2 wrote long integers
      out.push_back(axis);
      if (!Take(',') && !Peek(')')) return false;
    }
    return true;
  }

  std::string_view rest_;
};

std::optional<DType> DTypeOf(std::string_view descr) {
  if (descr == "<f4") return DType::kFloat32;
  if (descr == "<f8") return DType::kFloat64;
  if (descr == "<i4") return DType::kInt32;
  if (descr == "<i8") return DType::kInt64;
  if (descr == "|b1") return DType::kBool;
  return std::nullopt;
}

std::string_view DescrOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "<f4";
    case DType::kFloat64:
      return "<f8";
    case DType::kInt32:
      return "<i4";
    case DType::kInt64:
      return "<i8";
    case DType::kBool:
      return "|b1";
  }
  return "";
}

absl::Status WrongType(std::string_view name, std::string_view descr) {
  if (descr.starts_with(">")) {
    return absl::InvalidArgumentError(Cat(name, ": big-endian numbers ('", descr, "') are not read; save it as ",
                                          "array.astype(array.dtype.newbyteorder('<'))"));
  }
  return absl::InvalidArgumentError(Cat(name, ": numbers of type '", descr.substr(0, 40),
                                        "' are not read; use float32, float64, int32, int64 or bool"));
}

absl::Status Damaged(std::string_view name, std::string_view what) {
  return absl::InvalidArgumentError(Cat(name, ": damaged .npy header: ", what));
}

// Copies from Fortran order, where the first axis runs fastest, to C order.
std::vector<std::byte> ToCOrder(std::span<const std::byte> in, const Shape& shape, int64_t element_bytes) {
  std::vector<std::byte> out(in.size());
  if (in.empty()) return out;
  std::array<int64_t, kMaxAxes> strides{}, index{};
  int64_t stride = element_bytes;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  int64_t source = 0;
  for (size_t at = 0; at < out.size(); at += static_cast<size_t>(element_bytes)) {
    std::memcpy(out.data() + at, in.data() + source, static_cast<size_t>(element_bytes));
    for (size_t axis = shape.size(); axis-- > 0;) {
      source += strides[axis];
      if (++index[axis] < shape[axis]) break;
      source -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(std::span<const std::byte> file, std::string_view name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic)) return absl::InvalidArgumentError(Cat(name, ": not a .npy file"));
  if (text.size() < 10) return Damaged(name, "cut short");
  const auto byte_at = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  const size_t version = byte_at(6);
  if (version < 1 || version > 3) return Damaged(name, "unknown format version");
  const size_t prefix = version == 1 ? 10 : 12;
  if (text.size() < prefix) return Damaged(name, "cut short");
  size_t header_bytes = byte_at(8) | byte_at(9) << 8;
  if (version > 1) header_bytes |= byte_at(10) << 16 | byte_at(11) << 24;
  if (header_bytes > kMaxHeaderBytes) return Damaged(name, "its stated length is absurd");
  if (text.size() - prefix < header_bytes) return Damaged(name, "cut short");

  NpyHeader header;
  std::string descr;
  if (!HeaderParser(text.substr(prefix, header_bytes)).Parse(descr, header.fortran_order, header.shape)) {
    return Damaged(name, "not a dictionary of descr, fortran_order and shape");
  }
  const std::optional<DType> dtype = DTypeOf(descr);
  if (!dtype) return WrongType(name, descr);
  header.dtype = *dtype;
  header.data_offset = static_cast<int64_t>(prefix + header_bytes);
  if (!ByteCount(header.shape, header.dtype).ok()) {
    return Damaged(name, Cat("shape ", ShapeText(header.shape), " is larger than any memory"));
  }
  return header;
}

absl::StatusOr<Array> ParseNpy(const FileBytes& file, std::string_view name) {
  ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(file.bytes, name));
  ASSIGN_OR_RETURN(const int64_t need_bytes, ByteCount(header.shape, header.dtype));
  const std::span<const std::byte> data = file.bytes.subspan(static_cast<size_t>(header.data_offset));
  if (static_cast<int64_t>(data.size()) != need_bytes) {
    return absl::DataLossError(Cat(name, ": holds ", data.size(), " bytes of numbers, but its header says ",
                                   NameOf(header.dtype), " ", ShapeText(header.shape), ", which is ", need_bytes,
                                   " bytes; the file was cut or overwritten"));
  }
  if (!header.fortran_order || header.shape.size() < 2) return Array{header.dtype, header.shape, data, file.keep_alive};
  auto copy = std::make_shared<std::vector<std::byte>>(ToCOrder(data, header.shape, SizeOf(header.dtype)));
  const std::span<const std::byte> bytes(*copy);
  return Array{header.dtype, std::move(header.shape), bytes, std::move(copy)};
}

absl::StatusOr<Array> ReadNpy(const std::string& path) {
  ASSIGN_OR_RETURN(const FileBytes file, ReadFileBytes(path));
  return ParseNpy(file, path);
}

std::string EncodeNpyHeader(DType dtype, std::span<const int64_t> shape) {
  std::string dict = Cat("{'descr': '", DescrOf(dtype), "', 'fortran_order': False, 'shape': (");
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    absl::StrAppend(&dict, shape[axis], axis + 1 < shape.size() ? ", " : shape.size() == 1 ? "," : "");
  }
  absl::StrAppend(&dict, "), }");
  const bool wide = dict.size() + 1 + 10 + 64 > 65535;
  const size_t prefix = wide ? 12 : 10;
  dict.append(63 - (prefix + dict.size()) % 64, ' ');
  dict.push_back('\n');
  std::string header(kMagic);
  header.push_back(wide ? 2 : 1);
  header.push_back(0);
  for (size_t i = 0; i < prefix - 8; ++i) header.push_back(static_cast<char>(dict.size() >> (8 * i)));
  return Cat(header, dict);
}

absl::Status WriteNpy(const std::string& path, const Array& array) {
  const std::string header = EncodeNpyHeader(array.dtype, array.shape);
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span<const char>(header)), array.bytes};
  return WriteFileAtomically(path, parts);
}

}  // namespace jacserve::client
