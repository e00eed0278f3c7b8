// Sizes as people write and read them: "512MiB", "14.29 GB", "3.2 s".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace jacserve {

// "512MiB", "2GiB", "1.5GB", "4096" (bytes); KiB..TiB are powers of 1024, kB..TB powers of 1000, case ignored.
// InvalidArgument: anything else, or a size that is not positive.
absl::StatusOr<int64_t> ParseSize(std::string_view text);

std::string SizeText(int64_t bytes);       // "512.0 MiB"
std::string DurationText(double seconds);  // "0.42 s", "12 s", "3 min 05 s"

// 1 to 100 from "80%". InvalidArgument: no such percentage.
absl::StatusOr<int> ParsePercent(const std::string& text);

// Of a budget: a size, or a percentage of what is free. InvalidArgument: neither.
absl::Status CheckSizeOrPercent(const std::string& text);

}  // namespace jacserve
