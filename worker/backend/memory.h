// The memory that a backend computes in, and memory of the host that it copies from and to.
// In: sizes. Out: buffers that live as long as their last owner, and copies in the order in which a thread asks.
// Where the device is the host, both are the same: a copy from a pointer to itself is nothing, so rows are written
// once.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace jacserve::worker {

using Buffer = std::shared_ptr<void>;

class Memory {
 public:
  virtual ~Memory() = default;

  // Can the host read and write what Allocate gives?
  virtual bool on_host() const = 0;

  // Uninitialised memory of the device, aligned to 64 bytes. ResourceExhausted: there is not so much, with the sizes.
  virtual absl::StatusOr<Buffer> Allocate(int64_t bytes) const = 0;
  // The same of the host, aligned to pages, for copies that run while the host does other things.
  virtual absl::StatusOr<Buffer> AllocateHost(int64_t bytes) const = 0;
  // Room for `count` indices of ConstLanes::index: the host reads and writes them, the device sees what was published.
  virtual absl::StatusOr<Buffer> AllocateIndex(int64_t count) const = 0;

  // Begun in order with this thread's other calls, and done after its next Wait; the host's side must live and rest
  // until then.
  virtual void CopyIn(void* device, const void* host, int64_t bytes) const = 0;
  virtual void CopyOut(void* host, const void* device, int64_t bytes) const = 0;
  virtual void PublishIndex(const int32_t* index, int64_t count) const = 0;

  // Until everything that this thread asked of the backend is done; other threads see it from then on. The first error
  // of any thread since the backend was made: after one nothing that was computed can be trusted.
  virtual absl::Status Wait() const = 0;
};

// The memory of backends that compute on the host.
class HostMemory : public Memory {
 public:
  bool on_host() const override { return true; }
  absl::StatusOr<Buffer> Allocate(int64_t bytes) const override;
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes) const override;
  absl::StatusOr<Buffer> AllocateIndex(int64_t count) const override;
  void CopyIn(void* device, const void* host, int64_t bytes) const override;
  void CopyOut(void* host, const void* device, int64_t bytes) const override;
  void PublishIndex(const int32_t*, int64_t) const override {}
  absl::Status Wait() const override { return absl::OkStatus(); }
};

}  // namespace jacserve::worker
