#include "server/access/holdings.h"

#include <cstddef>

namespace jacserve::server {
namespace {

constexpr size_t kMostPerClient = 1 << 18;  // then it starts anew, and the client uploads again

}  // namespace

void Holdings::Grant(const std::string& client, const std::string& digest) {
  std::lock_guard lock(mutex_);
  std::unordered_set<std::string>& held = of_[client];
  if (held.size() >= kMostPerClient) held.clear();
  held.insert(digest);
}

bool Holdings::Has(const std::string& client, const std::string& digest) const {
  std::lock_guard lock(mutex_);
  const auto held = of_.find(client);
  return held != of_.end() && held->second.contains(digest);
}

}  // namespace jacserve::server
