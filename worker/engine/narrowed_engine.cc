#include "worker/engine/narrowed_engine.h"

#include <cstring>

#include "common/status.h"

namespace jacserve::worker {
namespace {

// Numbers [count] of float64 become float32 in the first half of the same memory.
void NarrowInPlace(std::byte* numbers, size_t count) {
  for (size_t p = 0; p < count; ++p) {
    double wide;
    std::memcpy(&wide, numbers + p * sizeof wide, sizeof wide);
    const auto narrow = static_cast<float>(wide);
    std::memcpy(numbers + p * sizeof narrow, &narrow, sizeof narrow);
  }
}

class NarrowingConsumer : public RowConsumer {
 public:
  explicit NarrowingConsumer(RowConsumer& consumer) : consumer_(consumer) {}
  absl::Status OnSlab(const Slab& slab) override {
    Slab narrow = slab;
    // The memory is the engine's own, and nobody else has seen it yet.
    NarrowInPlace(const_cast<std::byte*>(slab.bytes.data()), slab.bytes.size() / sizeof(double));
    narrow.bytes = slab.bytes.first(slab.bytes.size() / 2);
    return consumer_.OnSlab(narrow);
  }
  absl::Status OnRowsDone(RowRange rows) override { return consumer_.OnRowsDone(rows); }

 private:
  RowConsumer& consumer_;
};

class NarrowedEngine : public Engine {
 public:
  explicit NarrowedEngine(std::unique_ptr<Engine> engine) : engine_(std::move(engine)), layout_(engine_->layout()) {
    JACSERVE_CHECK(layout_.dtype == DType::kFloat64);
    layout_.dtype = DType::kFloat32;
    for (BlockInfo& block : layout_.blocks) block.row_bytes /= 2;
  }

  const JacobianLayout& layout() const override { return layout_; }
  Effort effort() const override { return engine_->effort(); }

  absl::StatusOr<std::vector<std::byte>> Value() override {
    ASSIGN_OR_RETURN(std::vector<std::byte> value, engine_->Value());
    NarrowInPlace(value.data(), value.size() / sizeof(double));
    value.resize(value.size() / 2);
    return value;
  }

  absl::Status ComputeRows(RowRange rows, RowConsumer& consumer, const std::function<bool()>& cancelled) override {
    NarrowingConsumer narrowing(consumer);
    return engine_->ComputeRows(rows, narrowing, cancelled);
  }

 private:
  const std::unique_ptr<Engine> engine_;
  JacobianLayout layout_;
};

}  // namespace

std::unique_ptr<Engine> NarrowToFloat32(std::unique_ptr<Engine> engine) {
  return std::make_unique<NarrowedEngine>(std::move(engine));
}

}  // namespace jacserve::worker
