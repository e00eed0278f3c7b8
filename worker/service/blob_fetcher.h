// Blobs from the coordinator. In: a digest. Out: the bytes, whose sha256 was checked.
#pragma once

#include <memory>

#include "grpcpp/channel.h"
#include "worker/service/blob_cache.h"

namespace jacserve::worker {

// A function for BlobCache. Errors: ResourceExhausted, a blob over the limit; NotFound, the coordinator does not hold
// it; DataLoss, other bytes came than were asked for; Unavailable, the coordinator cannot be reached.
FetchBlob FetchFromCoordinator(std::shared_ptr<grpc::Channel> channel);

}  // namespace jacserve::worker
