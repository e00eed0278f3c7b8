#include "server/service/validate.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "common/proto_convert.h"
#include "common/shape.h"
#include "common/status.h"

namespace jacserve::server {
namespace {

constexpr int kMaxTensors = 100'000;
constexpr int kMaxRowRanges = 65'536;

using Tensors = google::protobuf::RepeatedPtrField<v1::NamedTensor>;

absl::Status CheckTensors(const Tensors& tensors) {
  if (tensors.size() > kMaxTensors) {
    return absl::InvalidArgumentError(absl::StrCat(tensors.size(), " tensors in one list; at most ", kMaxTensors));
  }
  for (const v1::NamedTensor& tensor : tensors) {
    if (auto checked = FromProto(tensor); !checked.ok()) return checked.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Pin(const std::string& digest, const MayName& may_name, BlobPins& pins) {
  if (may_name(digest)) return pins.Add(digest);
  return absl::NotFoundError("not on this server");
}

absl::Status PinTensors(const Tensors& tensors, const MayName& may_name, BlobPins& pins) {
  for (const v1::NamedTensor& named : tensors) {
    ASSIGN_OR_RETURN(const TensorRef tensor, FromProto(named));
    const absl::StatusOr<int64_t> size_bytes = Pin(tensor.sha256, may_name, pins);
    if (!size_bytes.ok()) {
      return absl::NotFoundError(
          absl::StrCat("tensor '", tensor.name, "' is ", size_bytes.status().message(), "; upload it and ask again"));
    }
    if (*size_bytes != tensor.size_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' of shape ", ShapeText(tensor.shape),
                                                     " and type ", std::string(NameOf(tensor.dtype)), " needs ",
                                                     tensor.size_bytes, " bytes; its data has ", *size_bytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDigest(const std::string& digest, const std::string& what) {
  if (digest.size() == kDigestBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " must be a sha256 of ", kDigestBytes, " bytes; it has ", digest.size()));
}

absl::StatusOr<JobRequest> CheckRequest(v1::ComputeJacobianRequest request) {
  const v1::JacobianSpec& spec = request.spec();
  RETURN_IF_ERROR(CheckDigest(spec.graph_sha256(), "the graph's key"));
  for (const Tensors* tensors : {&spec.weights(), &spec.inputs(), &spec.second_inputs(), &spec.shared_inputs()}) {
    RETURN_IF_ERROR(CheckTensors(*tensors));
  }
  if (request.more_rows_size() > kMaxRowRanges) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.more_rows_size(), " ranges of rows; at most ", kMaxRowRanges, " in one request"));
  }
  JobRequest job;
  if (request.has_rows()) {
    ASSIGN_OR_RETURN(const RowRange rows, FromProto(request.rows()));
    job.rows = std::vector<RowRange>{rows};
    for (const v1::RowRange& more : request.more_rows()) {
      ASSIGN_OR_RETURN(const RowRange range, FromProto(more));
      job.rows->push_back(range);
    }
  }
  job.spec = std::move(*request.mutable_spec());
  return job;
}

absl::Status PinGraph(const std::string& digest, const MayName& may_name, BlobPins& pins) {
  const absl::StatusOr<int64_t> size_bytes = Pin(digest, may_name, pins);
  if (size_bytes.ok()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the graph is ", size_bytes.status().message(), "; upload it and ask again"));
}

absl::StatusOr<std::unique_ptr<BlobPins>> PinBlobs(BlobStore& store, const MayName& may_name,
                                                   const v1::JacobianSpec& spec) {
  auto pins = std::make_unique<BlobPins>(store);
  RETURN_IF_ERROR(PinGraph(spec.graph_sha256(), may_name, *pins));
  for (const Tensors* tensors : {&spec.weights(), &spec.inputs(), &spec.second_inputs(), &spec.shared_inputs()}) {
    RETURN_IF_ERROR(PinTensors(*tensors, may_name, *pins));
  }
  return pins;
}

absl::StatusOr<WorkerDetails> CheckRegistration(const v1::RegisterRequest& request) {
  const std::string& id = request.worker_id();
  if (id.empty() || id.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a worker's id must have 1 to ", kMaxNameBytes, " bytes"));
  }
  if (request.address().empty() || request.address().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("worker '", id, "' gave no address at which it can be called"));
  }
  if (request.version() != JACSERVE_VERSION) {
    return absl::InvalidArgumentError(absl::StrCat("worker '", id, "' has version ", request.version(),
                                                   ", the coordinator ", JACSERVE_VERSION,
                                                   "; install the same version for both"));
  }
  if (request.call_token().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker '", id, "' gave a token of more than ", kMaxNameBytes, " bytes"));
  }
  WorkerDetails details{
      id, request.address(), request.backend(), request.device(), request.memory_budget_bytes(), request.threads()};
  details.call_token = request.call_token();
  details.tls = request.tls();
  if (request.has_gpu()) {
    const v1::GpuInfo& gpu = request.gpu();
    details.gpu = WorkerGpu{gpu.uuid(), gpu.compute_capability(), gpu.driver(), gpu.memory_bytes()};
  }
  return details;
}

}  // namespace jacserve::server
