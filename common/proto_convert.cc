#include "common/proto_convert.h"

#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "common/status.h"

namespace jacserve {

absl::StatusOr<TensorRef> FromProto(const v1::NamedTensor& tensor) {
  if (tensor.name().empty()) return absl::InvalidArgumentError("a tensor of the request has no name");
  if (tensor.name().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the name of a tensor, '", tensor.name().substr(0, 40),
                                                   "...', is longer than ", kMaxNameBytes, " bytes"));
  }
  const auto invalid = [&](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name(), "': ", parts...));
  };
  const v1::Tensor& body = tensor.tensor();
  if (body.dtype() == v1::DATA_TYPE_UNSPECIFIED || !v1::DataType_IsValid(body.dtype())) {
    return invalid("its element type is missing or unknown");
  }
  if (body.shape_size() > kMaxRank) return invalid("it has ", body.shape_size(), " axes; at most ", kMaxRank, " work");
  if (body.sha256().size() != kDigestBytes) {
    return invalid("its digest has ", body.sha256().size(), " bytes instead of ", kDigestBytes);
  }
  TensorRef ref{.name = tensor.name(),
                .dtype = static_cast<DType>(body.dtype()),
                .shape = {body.shape().begin(), body.shape().end()},
                .size_bytes = 0,
                .sha256 = body.sha256()};
  absl::StatusOr<int64_t> size = ByteCount(ref.shape, ref.dtype);
  if (!size.ok()) return invalid(size.status().message());
  ref.size_bytes = *size;
  return ref;
}

absl::StatusOr<RowRange> FromProto(const v1::RowRange& range) {
  int64_t end = 0;
  if (range.begin() < 0 || range.count() < 0 || __builtin_add_overflow(range.begin(), range.count(), &end)) {
    return absl::OutOfRangeError(
        absl::StrCat("rows from ", range.begin(), ", ", range.count(), " of them, are not a range"));
  }
  return RowRange{range.begin(), range.count()};
}

v1::RowRange ToProto(RowRange range) {
  v1::RowRange proto;
  proto.set_begin(range.begin);
  proto.set_count(range.count);
  return proto;
}

v1::DataType ToProto(DType dtype) { return static_cast<v1::DataType>(dtype); }

}  // namespace jacserve
