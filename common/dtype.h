// Element types that tensors may have, on the wire and in memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace jacserve {

// Values equal jacserve.v1.DataType.
enum class DType : uint8_t { kFloat32 = 1, kFloat64 = 2, kInt32 = 3, kInt64 = 4, kBool = 5 };

constexpr int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kBool:
      return 1;
  }
  return 0;
}

constexpr std::string_view NameOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kBool:
      return "bool";
  }
  return "unknown";
}

constexpr bool IsFloat(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

}  // namespace jacserve
