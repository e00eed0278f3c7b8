// Client::ComputeJacobian: one stream after another until every row is there.
#include <chrono>

#include "client/cpp/client.h"
#include "client/cpp/event_checker.h"
#include "client/cpp/text.h"
#include "common/chunk_codec.h"
#include "common/grpc_status.h"
#include "common/proto_convert.h"
#include "common/raw_stream.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

constexpr char kMethod[] = "/jacserve.v1.JacobianService/ComputeJacobian";

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct StreamEnd {
  absl::Status status;
  bool may_continue = false;  // asking for the missing rows may help
};

v1::ComputeJacobianRequest RequestFor(const v1::JacobianSpec& spec, const EventChecker& checker) {
  v1::ComputeJacobianRequest request;
  *request.mutable_spec() = spec;
  const std::optional<std::vector<RowRange>> missing = checker.Missing();
  if (!missing) return request;
  *request.mutable_rows() = ToProto(missing->front());
  for (size_t i = 1; i < missing->size(); ++i) *request.add_more_rows() = ToProto((*missing)[i]);
  return request;
}

// Reads one stream to its end. `on_header` is called when the first event is there.
StreamEnd ReadStream(grpc::Channel& channel, const v1::ComputeJacobianRequest& request, const std::stop_token& stop,
                     EventChecker& checker, const std::function<void()>& on_header) {
  grpc::ClientContext context;
  const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  const auto reader = OpenRawStream(channel, kMethod, context, request);
  checker.StartStream();
  absl::Status status;
  grpc::ByteBuffer buffer;
  while (status.ok() && reader->Read(&buffer)) {
    on_header();
    absl::StatusOr<EventView> event = DecodeEvent(buffer);
    buffer.Clear();
    status = event.ok() ? checker.OnEvent(*event) : event.status();
  }
  if (!status.ok()) {
    context.TryCancel();
    reader->Finish();
    return {status, absl::IsDataLoss(status) && !checker.receiver_failed()};
  }
  status = FromGrpc(reader->Finish());
  // Cancelled without our asking: a server that is being ended cuts its calls off.
  if (!status.ok()) return {status, absl::IsUnavailable(status) || absl::IsCancelled(status)};
  return {checker.FinishStream(), true};
}

}  // namespace

absl::StatusOr<JacobianResult> Client::ComputeJacobian(const PreparedRequest& request, const RowsWanted& rows,
                                                       RowReceiver& receiver) {
  const Clock::time_point start = Clock::now();
  EventChecker checker(rows.range, rows.done, receiver);
  Retry retry(options_.retry, options_.stop);
  JacobianResult result;
  const auto on_header = [&] {
    if (result.seconds_to_header == 0) result.seconds_to_header = SecondsSince(start);
  };
  while (true) {
    const int64_t progress = checker.progress();
    // Again before each stream: a server that came back may have lost what it was given.
    RETURN_IF_ERROR(UploadMissing(request.blobs).status());
    const StreamEnd end = ReadStream(*channel_, RequestFor(request.spec, checker), options_.stop, checker, on_header);
    if (end.status.ok()) break;
    if (options_.stop.stop_requested()) return absl::CancelledError("interrupted");
    if (!end.may_continue) return end.status;
    if (checker.progress() > progress) retry.Progressed();
    if (!retry.TryAgain()) {
      if (options_.stop.stop_requested()) return absl::CancelledError("interrupted");
      return absl::Status(end.status.code(), Cat("gave up after ", retry.failures(), " tries: ", end.status.message()));
    }
    ++result.resumes;
  }
  result.layout = *checker.layout();
  result.summary = checker.summary();
  result.nonfinite_rows = checker.nonfinite().count();
  result.first_nonfinite = checker.nonfinite().first();
  result.payload_bytes = checker.payload_bytes();
  result.seconds = SecondsSince(start);
  return result;
}

}  // namespace jacserve::client
