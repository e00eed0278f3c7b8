// A golden case as the engine takes it, and a consumer that gathers its rows.
// In: a folder of tests/golden. Out: a JacobianProblem, expected arrays in float64, blocks in memory.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/cpp/array_io/npz.h"
#include "worker/engine/engine.h"

namespace jacserve::worker {

struct GoldenCase {
  std::string name;
  JacobianProblem problem;  // precision left at float32
  std::vector<std::string> unconnected;
  std::map<std::string, HostTensor> expected;  // float64, by block name; "value" too
};

std::string GoldenFolder(const std::string& name);
HostTensor ToHost(const client::Array& array);
// With expected arrays of the whole-block kind read only when `with_expected`.
GoldenCase LoadGoldenCase(const std::string& name, bool with_expected = true);
std::vector<double> ToDoubles(const HostTensor& tensor);
std::vector<double> ToDoubles(const std::vector<std::byte>& bytes, DType dtype);

// Keeps all rows of a range, and checks the order of events.
class Gather : public RowConsumer {
 public:
  Gather(const JacobianLayout& layout, RowRange rows);
  absl::Status OnSlab(const Slab& slab) override;
  absl::Status OnRowsDone(RowRange rows) override;

  const std::vector<std::byte>& block(size_t b) const { return blocks_[b]; }
  const std::vector<std::vector<std::byte>>& blocks() const { return blocks_; }
  int64_t rows_done() const { return done_.count(); }
  bool keep_slabs = false;  // holds on to the engine's memory, as a slow sender does

 private:
  const JacobianLayout& layout_;
  RowRange rows_;
  std::vector<std::vector<std::byte>> blocks_;
  std::vector<RowSet> seen_;
  RowSet done_;
};

}  // namespace jacserve::worker
