// The network as read from ONNX: immutable, verified, and free of ONNX's own classes.
// In: nothing. Out: the types that model/onnx_import fills and program/ reads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/dtype.h"
#include "common/shape.h"

namespace jacserve::worker {

// Numbers in host memory, C order. `bytes` may be shared with whoever received or read them.
struct HostTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::shared_ptr<const std::vector<std::byte>> bytes;

  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes->data());
  }
};

using AttributeValue = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, HostTensor,
                                    std::vector<std::string>>;

struct GraphNode {
  std::string name;  // as in the file, or "OpType_index" when it has none
  std::string op_type;
  std::string domain;                // empty: ai.onnx
  std::vector<std::string> inputs;   // value names; empty: an optional input left out
  std::vector<std::string> outputs;  // value names; empty: an optional output left out
  std::map<std::string, AttributeValue> attributes;
  int64_t opset_version = 0;  // of ai.onnx, for this node; 0: the graph's
};

struct GraphValue {
  std::string name;
  std::optional<DType> dtype;        // none: a type that is not computed with
  std::vector<int64_t> shape;        // -1: symbolic
  std::vector<std::string> symbols;  // per axis; empty where the size is fixed or the symbol has no name
  bool has_shape = true;             // false: the file does not state a rank
};

// Nodes are in an order in which each one's inputs come before it; value names are unique.
struct Graph {
  std::vector<GraphValue> inputs;  // without those that are initializers too
  std::vector<GraphValue> outputs;
  std::map<std::string, HostTensor> initializers;
  std::vector<GraphNode> nodes;
  int64_t ir_version = 0;
  int64_t opset_version = 0;  // of ai.onnx
  std::string producer;
};

}  // namespace jacserve::worker
