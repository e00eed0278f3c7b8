// Which client has shown that it holds which blobs: a digest alone, seen or guessed, gives nobody another's tensors.
// In: what clients uploaded. Out: whether a client may name a digest. Kept in memory: after a restart clients upload
// again, and what the store holds is only compared.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <unordered_set>

namespace jacserve::server {

class Holdings {
 public:
  void Grant(const std::string& client, const std::string& digest);
  bool Has(const std::string& client, const std::string& digest) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::unordered_set<std::string>> of_;
};

}  // namespace jacserve::server
