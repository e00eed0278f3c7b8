#include "client/cpp/client.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "absl/strings/match.h"
#include "client/cpp/text.h"
#include "common/grpc_status.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

constexpr size_t kUploadPieceBytes = size_t{1} << 20;
constexpr int kWindowBytes = 8 << 20;  // of a stream, that the server may send ahead
constexpr int kMaxDigestsPerCall = 65'536;
constexpr absl::Duration kSilence = absl::Seconds(1);
constexpr absl::Duration kShortCall = absl::Seconds(30);
constexpr absl::Duration kDescribeCall = absl::Minutes(2);

bool IsLoopback(std::string_view target) {
  return target.starts_with("unix:") || target.starts_with("127.") || target.starts_with("localhost:") ||
         target.starts_with("[::1]");
}

grpc::ChannelArguments ChannelArgumentsFor(std::string_view target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // A server that vanished without a word is noticed. More often than every 5 minutes is more than servers bear.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 310'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // Left alone, the window grows with the speed of the stream and with it this process, to over 100 MiB.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  if (IsLoopback(target)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

// Ends `context` when `stop` is requested while this object lives.
class CancelOnStop {
 public:
  CancelOnStop(const std::stop_token& stop, grpc::ClientContext& context)
      : callback_(stop, [&context] { context.TryCancel(); }) {}

 private:
  std::stop_callback<std::function<void()>> callback_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& target, const ClientOptions& options) {
  if (target.empty()) return absl::InvalidArgumentError("the server's address is empty; give HOST:PORT");
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                   OpenChannelWith(target, options.access, ChannelArgumentsFor(target)));
  const absl::Time start = absl::Now(), deadline = start + options.connect_timeout;
  bool told = !options.on_waiting;
  while (!options.stop.stop_requested()) {
    const absl::Time next = std::min(deadline, absl::Now() + absl::Milliseconds(200));
    if (channel->WaitForConnected(absl::ToChronoTime(next))) return std::make_unique<Client>(channel, options);
    const bool failed = channel->GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE;
    if (!told && (failed || absl::Now() - start > kSilence)) {
      told = true;
      options.on_waiting(options.connect_timeout);
    }
    if (absl::Now() >= deadline) {
      return absl::UnavailableError(Cat("no server answers at ", target, "; is jacserve-coordinator running ",
                                        "there, and is the port right? ",
                                        options.access.tls ? "Does it serve TLS, with a certificate that names it?"
                                                           : "If it serves TLS, --tls or --tls-ca is needed.",
                                        " --local N needs no server"));
    }
  }
  return absl::CancelledError("interrupted");
}

Client::Client(std::shared_ptr<grpc::Channel> channel, ClientOptions options)
    : channel_(std::move(channel)), stub_(v1::JacobianService::NewStub(channel_)), options_(std::move(options)) {}

absl::Status Client::CallWithRetry(const std::function<grpc::Status(grpc::ClientContext&)>& call,
                                   absl::Duration deadline) {
  Retry retry(options_.retry, options_.stop);
  while (true) {
    grpc::ClientContext context;
    if (deadline != absl::InfiniteDuration()) context.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
    const CancelOnStop cancel(options_.stop, context);
    const absl::Status status = FromGrpc(call(context));
    if (!absl::IsUnavailable(status) || !retry.TryAgain()) return status;
  }
}

absl::StatusOr<UploadReport> Client::UploadMissing(std::span<const Blob> blobs) {
  UploadReport report;
  std::set<std::string> missing;
  for (size_t begin = 0; begin < blobs.size(); begin += kMaxDigestsPerCall) {
    v1::FindMissingRequest request;
    for (const Blob& blob : blobs.subspan(begin, std::min<size_t>(kMaxDigestsPerCall, blobs.size() - begin))) {
      request.add_sha256(blob.sha256);
    }
    v1::FindMissingResponse response;
    RETURN_IF_ERROR(CallWithRetry(
        [&](grpc::ClientContext& context) { return stub_->FindMissing(&context, request, &response); }, kShortCall));
    missing.insert(response.missing().begin(), response.missing().end());
  }
  for (const Blob& blob : blobs) {
    report.total_bytes += static_cast<int64_t>(blob.bytes.size());
    if (!missing.contains(blob.sha256)) continue;
    RETURN_IF_ERROR(UploadOnce(blob));
    ++report.blobs;
    report.bytes += static_cast<int64_t>(blob.bytes.size());
  }
  return report;
}

absl::Status Client::UploadOnce(const Blob& blob) {
  const auto send = [&](grpc::ClientContext& context) {
    v1::UploadResponse response;
    const auto writer = stub_->Upload(&context, &response);
    v1::UploadRequest part;
    part.mutable_announcement()->set_sha256(blob.sha256);
    part.mutable_announcement()->set_size_bytes(static_cast<int64_t>(blob.bytes.size()));
    bool open = writer->Write(part);
    for (size_t at = 0; open && at < blob.bytes.size(); at += kUploadPieceBytes) {
      const size_t size = std::min(kUploadPieceBytes, blob.bytes.size() - at);
      part.mutable_data()->assign(reinterpret_cast<const char*>(blob.bytes.data()) + at, size);
      open = writer->Write(part);  // false: the server has answered already, as for a blob that it holds
    }
    writer->WritesDone();
    return writer->Finish();
  };
  const absl::Status status = CallWithRetry(send, absl::InfiniteDuration());
  if (status.ok()) return status;
  return absl::Status(status.code(), Cat("uploading ", blob.label, ": ", status.message()));
}

absl::StatusOr<v1::ModelDescription> Client::Describe(const std::string& graph_sha256) {
  v1::DescribeModelRequest request;
  request.set_graph_sha256(graph_sha256);
  v1::ModelDescription description;
  RETURN_IF_ERROR(
      CallWithRetry([&](grpc::ClientContext& context) { return stub_->DescribeModel(&context, request, &description); },
                    kDescribeCall));
  return description;
}

absl::StatusOr<v1::ListWorkersResponse> Client::ListWorkers() {
  v1::ListWorkersResponse response;
  RETURN_IF_ERROR(CallWithRetry(
      [&](grpc::ClientContext& context) { return stub_->ListWorkers(&context, {}, &response); }, kShortCall));
  return response;
}

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo() {
  v1::GetServerInfoResponse response;
  RETURN_IF_ERROR(CallWithRetry(
      [&](grpc::ClientContext& context) { return stub_->GetServerInfo(&context, {}, &response); }, kShortCall));
  return response;
}

}  // namespace jacserve::client
