// One worker stream into one client's queue. Payloads are neither decoded nor copied; headers are checked.
// In: messages of Prepare or ComputeShard as they arrive. Out: the same messages queued, small events told to `lease`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/row_range.h"
#include "grpcpp/support/sync_stream.h"
#include "jacserve/v1/types.pb.h"
#include "server/relay/event_queue.h"

namespace jacserve::server {

using RawReader = grpc::ClientReaderInterface<grpc::ByteBuffer>;

// The lease under which a stream runs, as far as the relay needs it.
class RelayLease {
 public:
  virtual ~RelayLease() = default;

  // The stream moved, or its client holds it up. False: the lease is void, stop.
  virtual bool Alive() = 0;

  // All chunks of these rows are queued. False: the lease is void. An error: the worker broke the protocol.
  virtual absl::StatusOr<bool> OnRowsDone(RowRange rows) = 0;

  // The client has held this stream up for so long, all waits together: hand the shard back?
  virtual bool GiveBack(double blocked_seconds) = 0;
};

enum class RelayEnd {
  kComplete,    // the worker's stream ended well
  kRowsFollow,  // of RelayPrepare: the worker went on with rows, and `first` is their first message
  kGivenBack,   // the client was too slow
  kBusy,        // the worker has not wound down its call before; nothing was begun
  kStopped,     // the lease is void or the client is gone
  kFailed,      // the worker, or the connection to it, failed: `status` says how
  kRejected,    // the job cannot go on, through no fault of the worker: `status` says why
};

struct RelayResult {
  RelayEnd end = RelayEnd::kComplete;
  absl::Status status;
  std::optional<v1::JacobianSummary> summary;
  grpc::ByteBuffer first = {};
};

// What chunks must look like, from the job's header.
struct RowLayout {
  std::vector<int64_t> block_row_bytes;  // 0: unconnected
  int64_t row_bytes = 0;                 // sum over blocks
};

// InvalidArgument: shapes that overflow.
absl::StatusOr<RowLayout> LayoutOf(const v1::JacobianHeader& header);

// Chunks and rows_done of `rows`, `first` being a message that was read already. The caller cancels the call when the
// end is not kComplete.
RelayResult RelayRows(RawReader& reader, EventQueue& queue, RowRange rows, const RowLayout& layout, RelayLease& lease,
                      grpc::ByteBuffer first = {});

// Where a header goes on its way to the client.
class HeaderSink {
 public:
  virtual ~HeaderSink() = default;

  // The event to queue for this header, with what only the coordinator knows; none when the client has one already.
  // An error: the request does not fit the target.
  virtual absl::StatusOr<std::optional<v1::JacobianEvent>> OnHeader(const v1::JacobianHeader& header) = 0;
};

// One header, then the target's value, up to the end or to rows that follow.
RelayResult RelayPrepare(RawReader& reader, EventQueue& queue, HeaderSink& sink, RelayLease& lease);

}  // namespace jacserve::server
