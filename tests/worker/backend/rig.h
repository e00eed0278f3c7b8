// A backend with numbers at hand: the same random operands for every backend, in its memory and type.
// In: sizes. Out: operands for a primitive, and what it wrote as doubles.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "worker/backend/backend.h"

namespace jacserve::worker {

class Rig {
 public:
  explicit Rig(std::unique_ptr<Backend> backend) : backend_(std::move(backend)), entered_(*backend_->EnterThread()) {}

  const Backend& operator*() const { return *backend_; }
  const Backend* operator->() const { return backend_.get(); }
  Scratch& scratch() { return scratch_; }

  // count lanes of n numbers in [-1, 1], exact in float32, `gap` numbers apart.
  ConstLanes In(int64_t count, int64_t n, int64_t gap = 0) {
    std::uniform_int_distribution<int> number(-1024, 1024);
    std::vector<double> numbers(count * (n + gap));
    for (double& x : numbers) x = number(generator_) / 1024.0;
    return Numbers(numbers, n + gap);
  }
  ConstLanes Numbers(const std::vector<double>& numbers, int64_t stride) {
    std::vector<float> narrow(numbers.begin(), numbers.end());
    if (backend_->dtype() == DType::kFloat32) return {Place(narrow.data(), narrow.size() * sizeof(float)), stride};
    return {Place(numbers.data(), numbers.size() * sizeof(double)), stride};
  }
  ConstLanes Ints(const std::vector<int32_t>& ints, int64_t stride) {
    return {Place(ints.data(), ints.size() * sizeof(int32_t)), stride};
  }
  // `lanes`, found by an index.
  ConstLanes By(const std::vector<int32_t>& index, ConstLanes lanes) {
    kept_.push_back(*backend_->memory().AllocateIndex(static_cast<int64_t>(index.size())));
    auto* to = static_cast<int32_t*>(kept_.back().get());
    std::copy(index.begin(), index.end(), to);
    backend_->memory().PublishIndex(to, static_cast<int64_t>(index.size()));
    lanes.index = to;
    return lanes;
  }
  // Room for count lanes of n numbers, random ones at first: what accumulates adds to them.
  Lanes Out(int64_t count, int64_t n) {
    const ConstLanes begun = In(count, n);
    return {const_cast<void*>(begun.data), begun.stride};
  }
  Lanes IntsOut(int64_t count, int64_t n) {
    const ConstLanes begun = Ints(std::vector<int32_t>(count * n, -7), n);
    return {const_cast<void*>(begun.data), n};
  }

  void Read(const Lanes& lanes, int64_t numbers, std::vector<double>& to) {
    if (backend_->dtype() == DType::kFloat32) return ReadAs<float>(lanes, numbers, to);
    ReadAs<double>(lanes, numbers, to);
  }
  template <class T>
  void ReadAs(const Lanes& lanes, int64_t numbers, std::vector<double>& to) {
    std::vector<T> host(numbers);
    backend_->memory().CopyOut(host.data(), lanes.data, numbers * static_cast<int64_t>(sizeof(T)));
    const absl::Status status = backend_->memory().Wait();
    EXPECT_TRUE(status.ok()) << status;
    to.insert(to.end(), host.begin(), host.end());
  }

 private:
  void* Place(const void* host, size_t bytes) {
    kept_.push_back(*backend_->memory().Allocate(static_cast<int64_t>(bytes)));
    backend_->memory().CopyIn(kept_.back().get(), host, static_cast<int64_t>(bytes));
    EXPECT_TRUE(backend_->memory().Wait().ok());
    return kept_.back().get();
  }

  const std::unique_ptr<Backend> backend_;
  std::shared_ptr<void> entered_;
  std::vector<Buffer> kept_;
  Scratch scratch_ = *Scratch::Make(backend_->memory(), int64_t{64} << 20);
  std::mt19937 generator_{5};
};

}  // namespace jacserve::worker
