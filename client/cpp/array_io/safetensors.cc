#include "client/cpp/array_io/safetensors.h"

#include <algorithm>
#include <optional>
#include <set>

#include "client/cpp/text.h"
#include "common/status.h"
#include "nlohmann/json.hpp"

namespace jacserve::client {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = uint64_t{100} << 20;  // the format's own limit
constexpr int kMaxNesting = 4;

std::optional<DType> DTypeOf(std::string_view text) {
  if (text == "F32") return DType::kFloat32;
  if (text == "F64") return DType::kFloat64;
  if (text == "I32") return DType::kInt32;
  if (text == "I64") return DType::kInt64;
  if (text == "BOOL") return DType::kBool;
  return std::nullopt;
}

absl::Status Damaged(std::string_view name, std::string_view what) {
  return absl::InvalidArgumentError(Cat(name, ": damaged .safetensors header: ", what));
}

// A list of non-negative integers, or nothing.
std::optional<Shape> SizesOf(const json& list) {
  if (!list.is_array()) return std::nullopt;
  Shape sizes;
  for (const json& item : list) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > uint64_t{1} << 62) return std::nullopt;
    sizes.push_back(item.get<int64_t>());
  }
  return sizes;
}

struct Placed {
  std::string tensor;
  Array array;
  int64_t begin = 0, end = 0;
};

absl::StatusOr<Placed> ReadEntry(const std::string& tensor, const json& entry, std::span<const std::byte> data,
                                 std::string_view name) {
  const std::string label = Cat(name, ", tensor '", tensor, "'");
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return Damaged(label, "no dtype, shape and data_offsets");
  }
  const std::string type = entry["dtype"].get<std::string>();
  const std::optional<DType> dtype = DTypeOf(type);
  if (!dtype) {
    return absl::InvalidArgumentError(
        Cat(label, ": numbers of type ", type.substr(0, 40), " are not read; use F32, F64, I32, I64 or BOOL"));
  }
  std::optional<Shape> shape = SizesOf(entry["shape"]);
  const std::optional<Shape> offsets = SizesOf(entry["data_offsets"]);
  if (!shape || !offsets || offsets->size() != 2) return Damaged(label, "shape or data_offsets are no sizes");
  const int64_t begin = (*offsets)[0], end = (*offsets)[1];
  const absl::StatusOr<int64_t> need_bytes = ByteCount(*shape, *dtype);
  if (!need_bytes.ok()) return Damaged(label, Cat("shape ", ShapeText(*shape), " is larger than any memory"));
  if (end < begin || end - begin != *need_bytes) return Damaged(label, "data_offsets do not match the shape");
  if (end > static_cast<int64_t>(data.size())) {
    return absl::DataLossError(Cat(label, ": its numbers lie beyond the end of the file; was it cut?"));
  }
  return Placed{
      tensor,
      Array{*dtype, *std::move(shape), data.subspan(static_cast<size_t>(begin), static_cast<size_t>(*need_bytes)), {}},
      begin, end};
}

// The header as JSON; nothing when it is not an object, nests too deep or names a key twice.
std::optional<json> ParseHeader(std::string_view text) {
  bool acceptable = true;
  std::set<std::string> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxNesting) acceptable = false;
    if (event == json::parse_event_t::key && depth == 1) acceptable &= keys.insert(parsed.get<std::string>()).second;
    return acceptable;
  };
  json header = json::parse(text.begin(), text.end(), check, /*allow_exceptions=*/false);
  if (!acceptable || !header.is_object()) return std::nullopt;
  return header;
}

}  // namespace

absl::StatusOr<NamedArrays> ParseSafetensors(const FileBytes& file, std::string_view name) {
  if (file.bytes.size() < 8) return absl::InvalidArgumentError(Cat(name, ": not a .safetensors file"));
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i) header_bytes = header_bytes << 8 | std::to_integer<uint64_t>(file.bytes[i]);
  if (header_bytes > kMaxHeaderBytes || header_bytes > file.bytes.size() - 8) {
    return Damaged(name, "its stated length is more than the file holds");
  }
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()) + 8, header_bytes);
  const std::optional<json> header = ParseHeader(text);
  if (!header) return Damaged(name, "not a flat JSON object with every name once");

  const std::span<const std::byte> data = file.bytes.subspan(8 + header_bytes);
  std::vector<Placed> placed;
  for (const auto& [tensor, entry] : header->items()) {
    if (tensor == "__metadata__") continue;
    ASSIGN_OR_RETURN(Placed one, ReadEntry(tensor, entry, data, name));
    placed.push_back(std::move(one));
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.begin, a.end, a.tensor) < std::tie(b.begin, b.end, b.tensor);
  });
  NamedArrays arrays;
  int64_t next = 0;
  for (Placed& one : placed) {
    if (one.begin != next) {
      return absl::DataLossError(Cat(name, ": tensor '", one.tensor, "' overlaps another or leaves a gap"));
    }
    next = one.end;
    one.array.keep_alive = file.keep_alive;
    arrays.emplace_back(std::move(one.tensor), std::move(one.array));
  }
  if (next != static_cast<int64_t>(data.size())) {
    return absl::DataLossError(Cat(name, ": holds ", data.size(), " bytes of numbers, but its header says ", next));
  }
  return arrays;
}

absl::StatusOr<NamedArrays> ReadSafetensors(const std::string& path) {
  ASSIGN_OR_RETURN(const FileBytes file, ReadFileBytes(path));
  return ParseSafetensors(file, path);
}

}  // namespace jacserve::client
