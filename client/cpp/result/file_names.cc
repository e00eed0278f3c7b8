#include "client/cpp/result/file_names.h"

#include <set>

#include "absl/strings/ascii.h"
#include "client/cpp/text.h"

namespace jacserve::client {
namespace {

constexpr size_t kLongestStem = 180;

std::string SafeStem(const std::string& name) {
  std::string stem = name.substr(0, kLongestStem);
  for (char& c : stem) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') c = '_';
  }
  if (stem.empty() || stem[0] == '.') stem.insert(stem.begin(), '_');
  return stem;
}

}  // namespace

std::vector<std::string> FileNamesFor(const std::vector<std::string>& block_names) {
  std::set<std::string> taken = {"value"};
  std::vector<std::string> files;
  for (const std::string& name : block_names) {
    const std::string stem = SafeStem(name);
    std::string unique = stem;
    for (int i = 2; !taken.insert(absl::AsciiStrToLower(unique)).second; ++i) unique = Cat(stem, "-", i);
    files.push_back(Cat(unique, ".npy"));
  }
  return files;
}

}  // namespace jacserve::client
