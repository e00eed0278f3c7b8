#include "worker/service/spec_reader.h"

#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "common/proto_convert.h"
#include "common/size_text.h"
#include "common/status.h"
#include "worker/model/onnx_import.h"

namespace jacserve::worker {
namespace {

absl::StatusOr<Similarity> SimilarityOf(v1::Similarity similarity) {
  switch (similarity) {
    case v1::SIMILARITY_COSINE:
      return Similarity::kCosine;
    case v1::SIMILARITY_DOT:
      return Similarity::kDot;
    case v1::SIMILARITY_SQDIST:
      return Similarity::kSqdist;
    default:
      return absl::InvalidArgumentError("the pairwise target names no similarity; use cosine, dot or sqdist");
  }
}

absl::StatusOr<CosineForm> CosineFormOf(v1::CosineForm form) {
  switch (form) {
    case v1::COSINE_FORM_SQRT_MAX_SUM:
      return CosineForm::kSqrtMaxSum;
    case v1::COSINE_FORM_MAX_NORM:
      return CosineForm::kMaxNorm;
    case v1::COSINE_FORM_ADD_PRODUCT:
      return CosineForm::kAddProduct;
    default:
      return absl::InvalidArgumentError(
          "the cosine names no form; use sqrt_max_sum, max_norm or add_product, whichever the model was trained with");
  }
}

absl::StatusOr<PairwiseTarget> PairwiseOf(const v1::Pairwise& proto) {
  PairwiseTarget target;
  ASSIGN_OR_RETURN(target.similarity, SimilarityOf(proto.similarity()));
  if (!std::isfinite(proto.sign())) return absl::InvalidArgumentError("the sign of the similarity is not a number");
  target.sign = proto.sign() == 0 ? 1.0 : proto.sign();
  if (target.similarity != Similarity::kCosine) return target;
  ASSIGN_OR_RETURN(target.form, CosineFormOf(proto.cosine_form()));
  if (!std::isfinite(proto.epsilon()) || proto.epsilon() < 0) {
    return absl::InvalidArgumentError("the epsilon of a cosine must be a number that is not negative");
  }
  target.epsilon = proto.epsilon();
  return target;
}

absl::Status ReadPrecision(v1::Precision precision, JacobianProblem& problem) {
  switch (precision) {
    case v1::PRECISION_UNSPECIFIED:
    case v1::PRECISION_FP32:
      return absl::OkStatus();
    case v1::PRECISION_FP64:
      problem.precision = DType::kFloat64;
      return absl::OkStatus();
    case v1::PRECISION_FP16:
      problem.values = HalfFormat::kFloat16;
      return absl::OkStatus();
    case v1::PRECISION_BF16:
      problem.values = HalfFormat::kBfloat16;
      return absl::OkStatus();
    case v1::PRECISION_TF32:
      problem.tf32 = true;
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError("the precision is unknown; use fp32, fp64, tf32, fp16 or bf16");
  }
}

absl::Status CheckNames(const google::protobuf::RepeatedPtrField<v1::NamedTensor>& list, const char* list_name) {
  std::set<std::string> names;
  for (const v1::NamedTensor& tensor : list) {
    if (!names.insert(tensor.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat("'", tensor.name(), "' is given twice among the ", list_name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t StatedTensorBytes(const v1::JacobianSpec& spec) {
  int64_t bytes = 0;
  for (const auto* list : {&spec.weights(), &spec.inputs(), &spec.second_inputs(), &spec.shared_inputs()}) {
    for (const v1::NamedTensor& named : *list) {
      const absl::StatusOr<TensorRef> ref = FromProto(named);
      if (!ref.ok() || __builtin_add_overflow(bytes, ref->size_bytes, &bytes))
        return std::numeric_limits<int64_t>::max();
    }
  }
  return bytes;
}

SpecReader::SpecReader(BlobCache& blobs, int64_t limit_bytes) : blobs_(blobs), limit_bytes_(limit_bytes) {}

absl::StatusOr<LoadedGraph> SpecReader::LoadGraph(const std::string& sha256, int64_t limit_bytes) {
  if (sha256.size() != kDigestBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the graph's digest must have ", kDigestBytes, " bytes"));
  }
  std::lock_guard lock(mutex_);
  if (graph_.graph != nullptr && graph_sha256_ == sha256) return graph_;
  graph_.graph = nullptr;
  ASSIGN_OR_RETURN(const Blob blob, blobs_.Get(sha256, limit_bytes));
  ASSIGN_OR_RETURN(graph_.graph, ImportOnnx(*blob));
  graph_.file_bytes = static_cast<int64_t>(blob->size());
  graph_sha256_ = sha256;
  return graph_;
}

absl::StatusOr<int64_t> SpecReader::LoadTensors(const google::protobuf::RepeatedPtrField<v1::NamedTensor>& list,
                                                const char* list_name, NamedTensors& tensors) {
  RETURN_IF_ERROR(CheckNames(list, list_name));
  int64_t total_bytes = 0;
  for (const v1::NamedTensor& named : list) {
    ASSIGN_OR_RETURN(TensorRef ref, FromProto(named));
    if (ref.size_bytes > limit_bytes_ - total_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the ", list_name, " have more than the ", SizeText(limit_bytes_),
                       " that the worker's memory budget leaves for them; start it with a larger --memory-budget"));
    }
    ASSIGN_OR_RETURN(Blob blob, blobs_.Get(ref.sha256, limit_bytes_));
    if (static_cast<int64_t>(blob->size()) != ref.size_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", ref.name, "' of shape ", ShapeText(ref.shape),
                                                     " and type ", std::string(NameOf(ref.dtype)), " needs ",
                                                     ref.size_bytes, " bytes; its data has ", blob->size()));
    }
    total_bytes += ref.size_bytes;
    tensors.emplace_back(ref.name, HostTensor{ref.dtype, std::move(ref.shape), std::move(blob)});
  }
  return total_bytes;
}

absl::StatusOr<LoadedProblem> SpecReader::Load(const v1::JacobianSpec& spec) {
  if (spec.encoding() != v1::ENCODING_UNSPECIFIED && spec.encoding() != v1::ENCODING_DENSE) {
    return absl::UnimplementedError("only the dense encoding of rows is supported");
  }
  LoadedProblem loaded;
  JacobianProblem& problem = loaded.problem;
  RETURN_IF_ERROR(ReadPrecision(spec.precision(), problem));
  problem.output = spec.target().output();
  if (spec.target().has_pairwise()) {
    ASSIGN_OR_RETURN(problem.pairwise, PairwiseOf(spec.target().pairwise()));
  }
  problem.wrt_parameters.assign(spec.wrt().parameters().begin(), spec.wrt().parameters().end());
  problem.wrt_inputs.assign(spec.wrt().inputs().begin(), spec.wrt().inputs().end());

  ASSIGN_OR_RETURN(const LoadedGraph graph, LoadGraph(spec.graph_sha256(), limit_bytes_));
  problem.graph = graph.graph;
  ASSIGN_OR_RETURN(const int64_t weights, LoadTensors(spec.weights(), "weights", problem.weights));
  ASSIGN_OR_RETURN(const int64_t inputs, LoadTensors(spec.inputs(), "inputs", problem.inputs));
  ASSIGN_OR_RETURN(const int64_t second,
                   LoadTensors(spec.second_inputs(), "inputs of the second batch", problem.second_inputs));
  ASSIGN_OR_RETURN(const int64_t shared, LoadTensors(spec.shared_inputs(), "shared inputs", problem.shared_inputs));
  loaded.host_bytes = graph.file_bytes + weights + inputs + second + shared;
  return loaded;
}

}  // namespace jacserve::worker
