#include "client/cli/request_files.h"

#include "client/cpp/array_io/npy.h"
#include "client/cpp/array_io/tensor_file.h"
#include "client/cpp/layout.h"
#include "client/cpp/text.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

absl::Status ReadNamed(const std::vector<std::string>& arguments, std::string_view option, NamedArrays& out) {
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == argument.size()) {
      return absl::InvalidArgumentError(Cat(option, ": '", argument, "' is not NAME=FILE.npy"));
    }
    const std::string name = argument.substr(0, equals);
    absl::StatusOr<Array> array = ReadNpy(argument.substr(equals + 1));
    if (!array.ok()) {
      return absl::Status(array.status().code(), Cat(option, " ", name, ": ", std::string(array.status().message())));
    }
    out.emplace_back(name, *std::move(array));
  }
  return absl::OkStatus();
}

v1::Target TargetOf(const JacobianArguments& arguments) {
  v1::Target target;
  target.set_output(arguments.output);
  if (arguments.pairwise.empty()) return target;
  v1::Pairwise& pairwise = *target.mutable_pairwise();
  pairwise.set_sign(arguments.sign);
  if (arguments.pairwise == "dot") pairwise.set_similarity(v1::SIMILARITY_DOT);
  if (arguments.pairwise == "sqdist") pairwise.set_similarity(v1::SIMILARITY_SQDIST);
  if (arguments.pairwise != "cosine") return target;
  pairwise.set_similarity(v1::SIMILARITY_COSINE);
  pairwise.set_epsilon(arguments.epsilon);
  pairwise.set_cosine_form(arguments.cosine_form == "max_norm"      ? v1::COSINE_FORM_MAX_NORM
                           : arguments.cosine_form == "add_product" ? v1::COSINE_FORM_ADD_PRODUCT
                                                                    : v1::COSINE_FORM_SQRT_MAX_SUM);
  return target;
}

}  // namespace

absl::StatusOr<JacobianRequest> LoadRequest(const JacobianArguments& arguments) {
  JacobianRequest request;
  ASSIGN_OR_RETURN(request.graph, ReadFileBytes(arguments.graph, kMaxGraphBytes));
  if (!arguments.weights.empty()) {
    ASSIGN_OR_RETURN(request.weights, ReadTensorFile(arguments.weights));
  }
  RETURN_IF_ERROR(ReadNamed(arguments.inputs, "--input", request.inputs));
  RETURN_IF_ERROR(ReadNamed(arguments.seconds, "--second", request.second_inputs));
  RETURN_IF_ERROR(ReadNamed(arguments.shared, "--shared-input", request.shared_inputs));
  request.target = TargetOf(arguments);
  for (const std::string& name : arguments.wrt) request.wrt.add_parameters(name);
  for (const std::string& name : arguments.wrt_inputs) request.wrt.add_inputs(name);
  request.precision = PrecisionNamed(arguments.precision);
  return request;
}

}  // namespace jacserve::client
