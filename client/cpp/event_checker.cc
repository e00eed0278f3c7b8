#include "client/cpp/event_checker.h"

#include <algorithm>

#include "client/cpp/text.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

absl::Status Bad(std::string_view what) { return absl::DataLossError(Cat("the server's answer is damaged: ", what)); }

std::string RowsText(RowRange rows) { return Cat("rows ", rows.begin, ":", rows.end()); }

}  // namespace

EventChecker::EventChecker(std::optional<RowRange> rows, RowSet done, RowReceiver& receiver)
    : rows_(rows), done_(std::move(done)), receiver_(receiver), rows_before_(done_.count()) {}

void EventChecker::StartStream() {
  header_seen_ = false;
  summary_seen_ = false;
}

absl::Status EventChecker::Received(absl::Status status) {
  receiver_failed_ |= !status.ok();
  return status;
}

absl::Status EventChecker::OnEvent(const EventView& event) {
  if (event.kind != v1::JacobianEvent::kHeader && !header_seen_) return Bad("it does not begin with its header");
  if (summary_seen_) return Bad("something follows its summary");
  switch (event.kind) {
    case v1::JacobianEvent::kHeader:
      return OnHeader(event.message->header());
    case v1::JacobianEvent::kValue:
      return OnValue(event.message->value());
    case v1::JacobianEvent::kChunk:
      return OnChunk(event);
    case v1::JacobianEvent::kRowsDone:
      return OnRowsDone({event.message->rows_done().rows().begin(), event.message->rows_done().rows().count()});
    case v1::JacobianEvent::kSummary:
      OnSummary(event.message->summary());
      return absl::OkStatus();
    case v1::JacobianEvent::EVENT_NOT_SET:
      return absl::OkStatus();  // an event of a later version
  }
  return absl::OkStatus();
}

absl::Status EventChecker::OnHeader(const v1::JacobianHeader& header) {
  if (header_seen_) return Bad("it has two headers");
  ASSIGN_OR_RETURN(Layout layout, LayoutOf(header));
  header_seen_ = true;
  if (layout_) {
    if (SameNumbers(*layout_, layout)) return absl::OkStatus();
    return absl::FailedPreconditionError("the server now answers the same request with other blocks; start again");
  }
  layout.rows = rows_.value_or(RowRange{0, layout.target_rows});
  if (layout.rows.end() > layout.target_rows) {
    return absl::OutOfRangeError(Cat(RowsText(layout.rows), " were asked for, but the target ",
                                     ShapeText(layout.target_shape), " has ", layout.target_rows, " rows"));
  }
  rows_ = layout.rows;
  bytes_seen_.resize(layout.blocks.size());
  layout_ = std::move(layout);
  return Received(receiver_.OnLayout(*layout_));
}

absl::Status EventChecker::OnValue(const v1::TargetValue& value) {
  const int64_t element_bytes = SizeOf(layout_->value_dtype);
  const auto size = static_cast<int64_t>(value.data().size());
  const RowRange elements{value.element_begin(), size / element_bytes};
  if (size % element_bytes != 0 || elements.begin < 0 || elements.begin > layout_->target_rows ||
      elements.count > layout_->target_rows - elements.begin) {
    return Bad("a piece of the value lies outside the target");
  }
  RETURN_IF_ERROR(Received(receiver_.OnValue(elements.begin, std::as_bytes(std::span<const char>(value.data())))));
  value_elements_.Add(elements);
  return absl::OkStatus();
}

absl::Status EventChecker::OnChunk(const EventView& event) {
  const ChunkHeader& chunk = event.chunk;
  if (chunk.block >= layout_->blocks.size() || !layout_->blocks[chunk.block].connected) {
    return Bad("a chunk of a block that was not announced");
  }
  const BlockLayout& block = layout_->blocks[chunk.block];
  const RowRange rows{chunk.row_begin, chunk.row_count};
  if (rows.begin < layout_->rows.begin || rows.count < 1 || rows.begin > layout_->rows.end() ||
      rows.count > layout_->rows.end() - rows.begin) {
    return Bad(Cat("a chunk of rows that were not asked for, beginning with ", rows.begin));
  }
  const int64_t slab_bytes = rows.count * block.row_bytes;
  const int64_t element_bytes = SizeOf(block.dtype);
  if (chunk.byte_offset < 0 || chunk.byte_offset > slab_bytes || event.payload_bytes > slab_bytes - chunk.byte_offset ||
      chunk.byte_offset % element_bytes != 0 || event.payload_bytes % element_bytes != 0) {
    return Bad(Cat("a chunk of '", block.name, "' does not fit its ", RowsText(rows)));
  }
  const int64_t byte_begin = rows.begin * block.row_bytes + chunk.byte_offset;
  nonfinite_.StartChunk(block, byte_begin);
  RETURN_IF_ERROR(VerifyChecksum(event, [&](std::span<const std::byte> piece) { nonfinite_.Look(piece); }));
  nonfinite_.KeepChunk();
  std::vector<std::span<const std::byte>> pieces;
  pieces.reserve(event.payload.size());
  for (const grpc::Slice& slice : event.payload) {
    pieces.push_back(std::as_bytes(std::span<const uint8_t>(slice.begin(), slice.size())));
  }
  const ChunkData data{chunk.block, byte_begin, event.payload_bytes, pieces};
  RETURN_IF_ERROR(Received(receiver_.OnChunk(data)));
  bytes_seen_[chunk.block].Add({data.byte_begin, data.bytes});
  payload_bytes_ += data.bytes;
  return absl::OkStatus();
}

absl::Status EventChecker::OnRowsDone(RowRange rows) {
  if (rows.begin < layout_->rows.begin || rows.count < 0 || rows.begin > layout_->rows.end() ||
      rows.count > layout_->rows.end() - rows.begin) {
    return Bad("it reports rows that were not asked for");
  }
  for (const RowRange& fresh : done_.MissingFrom(rows)) {
    for (size_t i = 0; i < layout_->blocks.size(); ++i) {
      const BlockLayout& block = layout_->blocks[i];
      if (!block.connected || bytes_seen_[i].Contains({fresh.begin * block.row_bytes, fresh.count * block.row_bytes})) {
        continue;
      }
      return Bad(Cat("parts of '", block.name, "' are missing from ", RowsText(fresh)));
    }
  }
  RETURN_IF_ERROR(Received(receiver_.OnRowsDone(rows)));
  done_.Add(rows);
  return absl::OkStatus();
}

void EventChecker::OnSummary(const v1::JacobianSummary& summary) {
  summary_seen_ = true;
  for (const v1::PhaseSeconds& phase : summary.phases()) {
    auto same = std::find_if(summary_.mutable_phases()->begin(), summary_.mutable_phases()->end(),
                             [&](const v1::PhaseSeconds& other) { return other.phase() == phase.phase(); });
    if (same == summary_.mutable_phases()->end()) {
      *summary_.add_phases() = phase;
    } else {
      same->set_seconds(same->seconds() + phase.seconds());
    }
  }
  *summary_.mutable_processes() = summary.processes();
  summary_.set_shards(summary_.shards() + summary.shards());
  summary_.set_shards_retried(summary_.shards_retried() + summary.shards_retried());
  summary_.set_underflows(summary_.underflows() + summary.underflows());
  summary_.set_overflows(summary_.overflows() + summary.overflows());
}

absl::Status EventChecker::FinishStream() const {
  if (!header_seen_ || !summary_seen_) return Bad("it ended before its summary");
  if (!value_elements_.Contains({0, layout_->target_rows})) return Bad("parts of the target's value are missing");
  const std::vector<RowRange> missing = done_.MissingFrom(layout_->rows);
  if (!missing.empty()) return Bad(Cat(RowsText(missing.front()), " never came"));
  return absl::OkStatus();
}

int64_t EventChecker::progress() const { return done_.count() - rows_before_; }

std::optional<std::vector<RowRange>> EventChecker::Missing() const {
  if (!rows_) return std::nullopt;
  std::vector<RowRange> missing = done_.MissingFrom(*rows_);
  if (missing.size() > kMaxRanges) {
    // Rows that are asked for once too often do no harm.
    missing[kMaxRanges - 1].count = missing.back().end() - missing[kMaxRanges - 1].begin;
    missing.resize(kMaxRanges);
  }
  if (missing.empty()) missing.push_back({rows_->begin, 0});  // the value and the layout are still wanted
  return missing;
}

}  // namespace jacserve::client
