#include "client/cpp/request.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_join.h"
#include "client/cpp/text.h"
#include "common/digest.h"
#include "common/proto_convert.h"
#include "common/status.h"
#include "google/protobuf/stubs/common.h"

namespace jacserve::client {
namespace {

using google::protobuf::internal::IsStructurallyValidUTF8;

absl::Status CheckNames(const JacobianRequest& request) {
  std::set<std::string> seen;
  const auto check = [&](const NamedArrays& arrays, std::string_view kind) -> absl::Status {
    for (const auto& [name, array] : arrays) {
      if (name.empty()) return absl::InvalidArgumentError(Cat("a ", kind, " has no name"));
      if (name.size() > kMaxNameBytes || !IsStructurallyValidUTF8(name.data(), static_cast<int>(name.size()))) {
        return absl::InvalidArgumentError(
            Cat("a ", kind, "'s name is longer than ", kMaxNameBytes, " bytes or not valid UTF-8"));
      }
      if (!seen.insert(name).second) {
        return absl::InvalidArgumentError(Cat("'", name, "' is given twice; each name takes one array"));
      }
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(check(request.weights, "weight"));
  RETURN_IF_ERROR(check(request.inputs, "input"));
  RETURN_IF_ERROR(check(request.shared_inputs, "shared input"));
  seen.clear();
  return check(request.second_inputs, "second input");
}

// Samples lie along axis 0 and are equally many in each array of a batch.
absl::Status CheckBatch(const NamedArrays& batch, std::string_view option) {
  for (const auto& [name, array] : batch) {
    if (array.shape.empty()) {
      return absl::InvalidArgumentError(Cat(option, " '", name, "' is a scalar; it needs samples along axis 0 ",
                                            "(an input that is the same for all samples is a shared input)"));
    }
    const auto& [first_name, first] = batch.front();
    if (array.shape[0] != first.shape[0]) {
      return absl::InvalidArgumentError(Cat(option, " '", name, "' has ", array.shape[0], " samples (shape ",
                                            ShapeText(array.shape), "), but '", first_name, "' has ", first.shape[0]));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSecond(const JacobianRequest& request) {
  if (!request.target.has_pairwise()) {
    if (request.second_inputs.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "a second batch is given, but the target is not pairwise; ask for cosine, dot or sqdist");
  }
  if (request.second_inputs.empty()) {
    return absl::InvalidArgumentError("a pairwise target needs a second batch; give one with the same input names");
  }
  std::map<std::string, const Array*> first;
  for (const auto& [name, array] : request.inputs) first[name] = &array;
  for (const auto& [name, array] : request.second_inputs) {
    const auto found = first.find(name);
    if (found == first.end()) {
      return absl::InvalidArgumentError(Cat("second input '", name, "' has no first one of that name"));
    }
    const Array& other = *found->second;
    if (array.dtype != other.dtype || array.shape.size() != other.shape.size() ||
        !std::equal(array.shape.begin() + 1, array.shape.end(), other.shape.begin() + 1)) {
      return absl::InvalidArgumentError(Cat("second input '", name, "' is ", NameOf(array.dtype), " ",
                                            ShapeText(array.shape), ", the first is ", NameOf(other.dtype), " ",
                                            ShapeText(other.shape), "; only axis 0 may differ"));
    }
    first.erase(found);
  }
  if (first.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("input '", first.begin()->first, "' is missing from the second batch"));
}

absl::Status CheckWrtInputs(const JacobianRequest& request) {
  std::vector<std::string> given = InputBlockNames(request);
  for (const auto& [name, array] : request.shared_inputs) given.push_back(name);
  for (const std::string& name : request.wrt.inputs()) {
    if (std::find(given.begin(), given.end(), name) != given.end()) continue;
    return absl::InvalidArgumentError(Cat("'", name, "' is to be differentiated with respect to, but no input of ",
                                          "that name is given; there is: ", absl::StrJoin(given, ", ")));
  }
  return absl::OkStatus();
}

// Collects blobs, each digest once.
class BlobCollector {
 public:
  explicit BlobCollector(std::vector<Blob>& blobs) : blobs_(blobs) {}

  std::string Add(std::span<const std::byte> bytes, std::shared_ptr<const void> keep_alive, std::string label) {
    std::string sha256 = Sha256Of(bytes);
    if (seen_.insert(sha256).second) blobs_.push_back({sha256, std::move(label), bytes, std::move(keep_alive)});
    return sha256;
  }

  void AddAll(const NamedArrays& arrays, std::string_view kind,
              google::protobuf::RepeatedPtrField<v1::NamedTensor>& out) {
    for (const auto& [name, array] : arrays) {
      v1::NamedTensor& named = *out.Add();
      named.set_name(name);
      named.mutable_tensor()->set_dtype(ToProto(array.dtype));
      named.mutable_tensor()->mutable_shape()->Assign(array.shape.begin(), array.shape.end());
      named.mutable_tensor()->set_sha256(Add(array.bytes, array.keep_alive, Cat(kind, " '", name, "'")));
    }
  }

 private:
  std::vector<Blob>& blobs_;
  std::set<std::string> seen_;
};

}  // namespace

absl::StatusOr<PreparedRequest> Prepare(const JacobianRequest& request) {
  if (request.inputs.empty()) return absl::InvalidArgumentError("no input is given");
  RETURN_IF_ERROR(CheckNames(request));
  RETURN_IF_ERROR(CheckBatch(request.inputs, "input"));
  RETURN_IF_ERROR(CheckBatch(request.second_inputs, "second input"));
  RETURN_IF_ERROR(CheckSecond(request));
  RETURN_IF_ERROR(CheckWrtInputs(request));
  PreparedRequest prepared;
  BlobCollector blobs(prepared.blobs);
  v1::JacobianSpec& spec = prepared.spec;
  spec.set_graph_sha256(blobs.Add(request.graph.bytes, request.graph.keep_alive, "graph"));
  blobs.AddAll(request.weights, "weight", *spec.mutable_weights());
  blobs.AddAll(request.inputs, "input", *spec.mutable_inputs());
  blobs.AddAll(request.second_inputs, "second input", *spec.mutable_second_inputs());
  blobs.AddAll(request.shared_inputs, "shared input", *spec.mutable_shared_inputs());
  *spec.mutable_target() = request.target;
  *spec.mutable_wrt() = request.wrt;
  spec.set_precision(request.precision);
  spec.set_encoding(v1::ENCODING_DENSE);
  return prepared;
}

std::vector<std::string> InputBlockNames(const JacobianRequest& request) {
  std::vector<std::string> names;
  for (const auto& [name, array] : request.inputs) names.push_back(name);
  for (const auto& [name, array] : request.second_inputs) names.push_back(Cat("second.", name));
  return names;
}

std::string Fingerprint(const v1::JacobianSpec& spec, std::optional<RowRange> rows) {
  std::string text = spec.SerializeAsString();
  if (rows) absl::StrAppend(&text, "rows ", rows->begin, ":", rows->end());
  return HexOf(Sha256Of(std::as_bytes(std::span<const char>(text))));
}

}  // namespace jacserve::client
