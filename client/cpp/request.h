// A Jacobian request as a caller states it, checked on this side and turned into what is sent.
// In: the graph's bytes, arrays by name, target, what to differentiate with respect to. Out: spec and blobs by digest.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/array_io/array.h"
#include "client/cpp/array_io/file_bytes.h"
#include "common/row_range.h"
#include "jacserve/v1/types.pb.h"

namespace jacserve::client {

// Bytes that the server may have to be given; `bytes` live while `keep_alive` does.
struct Blob {
  std::string sha256;  // 32 raw bytes
  std::string label;   // for errors and progress: "graph", "weight 'conv.kernel'"
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep_alive;
};

struct JacobianRequest {
  FileBytes graph;            // an ONNX file
  NamedArrays weights;        // by parameter name; may be empty when the graph holds them
  NamedArrays inputs;         // samples along axis 0, equally many in each
  NamedArrays second_inputs;  // the second batch of a pairwise target: same names, same shapes behind axis 0
  NamedArrays shared_inputs;  // the same for every sample
  v1::Target target;
  v1::Wrt wrt;  // both lists empty: all parameters
  v1::Precision precision = v1::PRECISION_FP32;
};

struct PreparedRequest {
  v1::JacobianSpec spec;
  std::vector<Blob> blobs;  // each digest once
};

// Checks what can be known without the graph, and digests every tensor. Arrays keep their own dtype: the worker
// converts. InvalidArgument: names given twice, empty, too long or no UTF-8; inputs whose first axes differ; a second
// batch without pairwise, or the reverse, or of other names or shapes; a wrt input that is not among the inputs.
absl::StatusOr<PreparedRequest> Prepare(const JacobianRequest& request);

// Names of the blocks that inputs get, in the order in which expected.npz counts them: inputs, then second.inputs.
std::vector<std::string> InputBlockNames(const JacobianRequest& request);

// Identifies the answer: equal for equal specs and rows. Hex.
std::string Fingerprint(const v1::JacobianSpec& spec, std::optional<RowRange> rows);

}  // namespace jacserve::client
