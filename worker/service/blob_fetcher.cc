#include "worker/service/blob_fetcher.h"

#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "common/grpc_status.h"
#include "common/size_text.h"
#include "common/status.h"
#include "grpcpp/client_context.h"
#include "jacserve/v1/worker_service.grpc.pb.h"

namespace jacserve::worker {
namespace {

constexpr auto kFetchTime = std::chrono::minutes(10);  // for the largest blob; a coordinator that hangs is given up

absl::Status OtherBytes(const std::string& sha256) {
  return absl::DataLossError(
      absl::StrCat("the bytes that came for ", HexOf(sha256).substr(0, 12), "... are not those; ask again"));
}

absl::StatusOr<std::vector<std::byte>> Receive(grpc::ClientReader<v1::FetchBlobResponse>& reader,
                                               const std::string& sha256, int64_t limit_bytes) {
  std::vector<std::byte> bytes;
  Sha256 hash;
  v1::FetchBlobResponse piece;
  for (bool first = true; reader.Read(&piece); first = false) {
    if (first) {
      if (piece.size_bytes() < 0 || piece.size_bytes() > limit_bytes) {
        return absl::ResourceExhaustedError(
            absl::StrCat("a graph or tensor of ", SizeText(piece.size_bytes()), " is over the ", SizeText(limit_bytes),
                         " that the worker's memory budget leaves for it; start it with a larger --memory-budget"));
      }
      bytes.reserve(static_cast<size_t>(piece.size_bytes()));
    }
    if (piece.data().size() > bytes.capacity() - bytes.size()) return OtherBytes(sha256);
    const auto data = std::as_bytes(std::span(piece.data()));
    bytes.insert(bytes.end(), data.begin(), data.end());
    hash.Update(data);
  }
  RETURN_IF_ERROR(FromGrpc(reader.Finish()));
  if (hash.Finish() != sha256) return OtherBytes(sha256);
  return bytes;
}

}  // namespace

FetchBlob FetchFromCoordinator(std::shared_ptr<grpc::Channel> channel) {
  std::shared_ptr<v1::WorkerRegistry::Stub> stub = v1::WorkerRegistry::NewStub(channel);
  return [stub](const std::string& sha256, int64_t limit_bytes) -> absl::StatusOr<std::vector<std::byte>> {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kFetchTime);
    v1::FetchBlobRequest request;
    request.set_sha256(sha256);
    auto reader = stub->FetchBlob(&context, request);
    absl::StatusOr<std::vector<std::byte>> bytes = Receive(*reader, sha256, limit_bytes);
    if (!bytes.ok()) context.TryCancel();  // without effect on a call that has ended
    return bytes;
  };
}

}  // namespace jacserve::worker
