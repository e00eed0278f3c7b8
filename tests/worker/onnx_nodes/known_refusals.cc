#include "tests/worker/onnx_nodes/known_refusals.h"

#include "absl/strings/match.h"

namespace jacserve::worker {
namespace {

struct Refusal {
  const char* message;  // part of the status
  const char* reason;
};

constexpr Refusal kRefusals[] = {
    {"operator ", "another operator"},
    {"opset newer than", "a newer opset"},
    {"tensors of type", "a type that is not computed with"},
    {"a sequence or optional", "sequences and optionals"},
    {"holds a subgraph", "subgraphs"},
    {"stored in segments", "sequences and optionals"},
    {"a Dropout that trains", "random numbers"},
    {"a MaxPool whose indices are used", "indices of a MaxPool"},
    {"running or saved statistics are outputs", "training of a BatchNormalization"},
    {"the reduction m", "a scatter that multiplies or compares"},
    {"tf_crop_and_resize", "a Resize of a region or with antialiasing"},
    {"a resize with antialias", "a Resize of a region or with antialiasing"},
    {"states no version of the standard operator set", "another domain"},
};

}  // namespace

std::string KnownRefusal(const absl::Status& status) {
  if (absl::IsDataLoss(status)) return "";
  for (const Refusal& refusal : kRefusals) {
    if (absl::StrContains(std::string(status.message()), refusal.message)) return refusal.reason;
  }
  return "";
}

}  // namespace jacserve::worker
