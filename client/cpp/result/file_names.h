// File names for blocks. In: block names as the graph spells them. Out: names that any file system takes, all
// different.
#pragma once

#include <string>
#include <vector>

namespace jacserve::client {

// One ".npy" name per block: letters, digits, dots, dashes and underscores are kept, all else becomes an underscore;
// a name that would begin with a dot, be too long, or equal another one (letter case aside) or "value" is changed.
std::vector<std::string> FileNamesFor(const std::vector<std::string>& block_names);

}  // namespace jacserve::client
