// Finished rows -> chunk events on a stream. What is large is not copied: the engine's slab lives until gRPC has sent
// it.
#pragma once

#include <cstdint>
#include <functional>

#include "common/raw_stream.h"
#include "grpcpp/support/byte_buffer.h"
#include "worker/engine/engine.h"

namespace jacserve::worker {

class ChunkWriter : public RowConsumer {
 public:
  // Sends one message; false when nobody reads any more.
  using WriteMessage = std::function<bool(const grpc::ByteBuffer& message, Next next)>;

  // After the last of `rows` rows, the caller soon writes something itself.
  ChunkWriter(int64_t rows, WriteMessage write);

  // Cancelled: nobody reads any more.
  absl::Status OnSlab(const Slab& slab) override;
  absl::Status OnRowsDone(RowRange rows) override;

  int64_t rows() const { return rows_; }
  int64_t payload_bytes() const { return payload_bytes_; }

 private:
  absl::Status Send(const grpc::ByteBuffer& message, Next next);

  const int64_t all_rows_;
  const WriteMessage write_;
  int64_t rows_ = 0;
  int64_t payload_bytes_ = 0;
};

}  // namespace jacserve::worker
