// Which name was meant by one that is not there. In: names. Out: how alike they are, and the most alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace jacserve::worker {

// The same but for how it is written: case, separators, a prefix of its own, or a slip of at most two letters, but no
// other number (layers.1 and layers.2 are two).
bool IsNameRespelt(std::string_view name, std::string_view known);

// The known name that is most like `name`, empty where none is much like it.
std::string NearestName(std::string_view name, const std::vector<std::string>& known);

}  // namespace jacserve::worker
