// Text put together from parts. In: strings, numbers. Out: one string.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace jacserve::client {

template <class T>
decltype(auto) TextPart(const T& part) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return absl::string_view(part.data(), part.size());
  } else {
    return absl::AlphaNum(part);
  }
}

// absl::StrCat that takes std::string_view as well, which is another type than Debian's absl::string_view.
template <class... Parts>
std::string Cat(const Parts&... parts) {
  return absl::StrCat(TextPart(parts)...);
}

}  // namespace jacserve::client
