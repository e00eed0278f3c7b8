// `jacserve token`: a secret for its owner, and its digest for the coordinator's --tokens.
#include <span>

#include "client/cli/commands.h"
#include "client/cpp/text.h"
#include "common/digest.h"
#include "common/token.h"

namespace jacserve::client {

absl::Status RunToken(const Options& options, CommandOutput& output) {
  const TokenArguments& arguments = options.token;
  for (const std::string* word : {&arguments.name, &arguments.roles}) {
    if (word->empty() || word->find_first_of(" \t\r\n#") != std::string::npos) {
      return absl::InvalidArgumentError(Cat("'", *word, "': names and roles have no blanks and no #"));
    }
  }
  const std::string token = NewToken();
  const std::string digest = HexOf(Sha256Of(std::as_bytes(std::span(token))));
  const std::string line = Cat(arguments.name, " ", arguments.roles, " ", digest);
  output.text = Cat("token, for ", arguments.name, " alone (JACSERVE_TOKEN or --token-file):\n  ", token,
                    "\nline for the coordinator's --tokens file:\n  ", line, "\n");
  output.json = {{"token", token}, {"line", line}};
  return absl::OkStatus();
}

}  // namespace jacserve::client
