// Checks a Jacobian stream's events against what was asked and hands them on.
// In: events in the order of arrival, over one stream or several that continue each other. Out: calls to a receiver
// that need no further checks, and which rows are still missing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/layout.h"
#include "client/cpp/nonfinite_rows.h"
#include "client/cpp/row_receiver.h"
#include "common/chunk_codec.h"
#include "common/row_range.h"

namespace jacserve::client {

class EventChecker {
 public:
  // `rows`: those wanted, none for all. `done`: rows of them that the receiver has from before.
  EventChecker(std::optional<RowRange> rows, RowSet done, RowReceiver& receiver);

  // A new stream: its header and value come again.
  void StartStream();

  // DataLoss: a damaged chunk, rows that were not asked for, or a gap; asking again for the missing rows may help.
  // FailedPrecondition: the layout is another than before. Anything else is the receiver's (receiver_failed()).
  absl::Status OnEvent(const EventView& event);

  // After the stream's last event. DataLoss: rows or parts of the value are missing.
  absl::Status FinishStream() const;

  bool receiver_failed() const { return receiver_failed_; }
  const std::optional<Layout>& layout() const { return layout_; }
  int64_t payload_bytes() const { return payload_bytes_; }         // of all chunks, repeats included
  int64_t progress() const;                                        // grows with everything new that arrives
  const NonFiniteRows& nonfinite() const { return nonfinite_; }    // among the rows of all chunks
  const v1::JacobianSummary& summary() const { return summary_; }  // of all streams together

  // What to ask for next; none: all rows (nothing is known yet). At most kMaxRanges ranges.
  std::optional<std::vector<RowRange>> Missing() const;

 private:
  static constexpr size_t kMaxRanges = 1'000;

  absl::Status OnHeader(const v1::JacobianHeader& header);
  absl::Status OnValue(const v1::TargetValue& value);
  absl::Status OnChunk(const EventView& event);
  absl::Status OnRowsDone(RowRange rows);
  void OnSummary(const v1::JacobianSummary& summary);
  absl::Status Received(absl::Status status);

  std::optional<RowRange> rows_;
  RowSet done_;
  RowReceiver& receiver_;
  std::optional<Layout> layout_;
  RowSet value_elements_;
  std::vector<RowSet> bytes_seen_;  // per block, byte ranges of its whole Jacobian
  bool header_seen_ = false;        // in this stream
  bool summary_seen_ = false;       // in this stream
  bool receiver_failed_ = false;
  int64_t payload_bytes_ = 0;
  int64_t rows_before_ = 0;
  v1::JacobianSummary summary_;
  NonFiniteRows nonfinite_;
};

}  // namespace jacserve::client
