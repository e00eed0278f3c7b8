// Requests as clients sent them, checked. In: messages. Out: what the rest of the server may rely on, or words that
// name what is wrong.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jacserve/v1/jacobian_service.pb.h"
#include "jacserve/v1/worker_service.pb.h"
#include "server/schedule/active_job.h"
#include "server/state/state.h"
#include "server/store/blob_store.h"

namespace jacserve::server {

// InvalidArgument: not 32 bytes; `what` names the field.
absl::Status CheckDigest(const std::string& digest, const std::string& what);

// InvalidArgument: digests, names, shapes or counts. OutOfRange: rows that no target has.
absl::StatusOr<JobRequest> CheckRequest(v1::ComputeJacobianRequest request);

// Whether the caller may name this blob; one that it may not is not there for it.
using MayName = std::function<bool(const std::string& digest)>;

// The graph, kept from eviction. NotFound: it was not uploaded.
absl::Status PinGraph(const std::string& digest, const MayName& may_name, BlobPins& pins);

// Everything that the request names, kept from eviction. NotFound: a blob that was not uploaded, by the tensor's name.
// InvalidArgument: a tensor whose shape and dtype do not fit its bytes.
absl::StatusOr<std::unique_ptr<BlobPins>> PinBlobs(BlobStore& store, const MayName& may_name,
                                                   const v1::JacobianSpec& spec);

// InvalidArgument: no id or address, or another version than this coordinator's.
absl::StatusOr<WorkerDetails> CheckRegistration(const v1::RegisterRequest& request);

}  // namespace jacserve::server
