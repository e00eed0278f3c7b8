// A request as the wire states it -> the engine's problem, with graph and tensors at hand.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "jacserve/v1/types.pb.h"
#include "worker/engine/engine.h"
#include "worker/service/blob_cache.h"

namespace jacserve::worker {

struct LoadedGraph {
  std::shared_ptr<const Graph> graph;
  int64_t file_bytes = 0;
};

struct LoadedProblem {
  JacobianProblem problem;
  int64_t host_bytes = 0;  // of the graph and the tensors, which stay in memory with the problem
};

// Of all tensors, as the request states them; what is wrong with it is for SpecReader to say.
int64_t StatedTensorBytes(const v1::JacobianSpec& spec);

// Safe to call from several threads.
class SpecReader {
 public:
  // No graph and no list of tensors may have more than limit_bytes.
  SpecReader(BlobCache& blobs, int64_t limit_bytes);

  // InvalidArgument: fields that are missing, unknown or contradict each other, or a graph that is not valid.
  // ResourceExhausted: over the limit. Otherwise as BlobCache::Get.
  absl::StatusOr<LoadedProblem> Load(const v1::JacobianSpec& spec);

  // The graph, imported; the last one is kept. ResourceExhausted: its file has more than limit_bytes. Else as Load.
  absl::StatusOr<LoadedGraph> LoadGraph(const std::string& sha256, int64_t limit_bytes);

 private:
  absl::StatusOr<int64_t> LoadTensors(const google::protobuf::RepeatedPtrField<v1::NamedTensor>& list,
                                      const char* list_name, NamedTensors& tensors);

  BlobCache& blobs_;
  const int64_t limit_bytes_;
  std::mutex mutex_;
  std::string graph_sha256_;
  LoadedGraph graph_;
};

}  // namespace jacserve::worker
