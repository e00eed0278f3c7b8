#include "worker/model/onnx_parse.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/unknown_field_set.h"
#include "google/protobuf/wire_format_lite.h"

namespace jacserve::worker {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

absl::Status NotOnnx() {
  return absl::InvalidArgumentError("the graph is not a complete ONNX file: its bytes are damaged or cut short");
}

// Counts the fields of a message and of the messages in it without making objects: a few bytes of a file can become
// hundreds of bytes of objects, so the limits on counts must hold before parsing.
class FieldCounter {
 public:
  explicit FieldCounter(const ImportLimits& limits) : limits_(limits) {}

  absl::Status Count(CodedInputStream& input, const Descriptor& type, int depth) {
    if (depth > limits_.protobuf_depth) {
      return absl::InvalidArgumentError(
          absl::StrCat("the graph nests deeper than ", limits_.protobuf_depth, " messages"));
    }
    while (const uint32_t tag = input.ReadTag()) {
      if (++fields_ > limits_.fields) {
        return absl::InvalidArgumentError(absl::StrCat("the graph has more than ", limits_.fields, " fields"));
      }
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      const bool is_message = field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE &&
                              WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      if (!is_message) {
        if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_START_GROUP) return NotOnnx();
        if (!WireFormatLite::SkipField(&input, tag)) return NotOnnx();
        continue;
      }
      uint32_t size = 0;
      if (!input.ReadVarint32(&size) || size > std::numeric_limits<int>::max()) return NotOnnx();
      if (static_cast<int>(size) > input.BytesUntilLimit()) return NotOnnx();
      const CodedInputStream::Limit outer = input.PushLimit(static_cast<int>(size));
      RETURN_IF_ERROR(Count(input, *field->message_type(), depth + 1));
      input.PopLimit(outer);
    }
    return input.ConsumedEntireMessage() && input.BytesUntilLimit() == 0 ? absl::OkStatus() : NotOnnx();
  }

 private:
  const ImportLimits& limits_;
  int64_t fields_ = 0;
};

}  // namespace

absl::Status ParseMessage(const std::string& bytes, const ImportLimits& limits, google::protobuf::Message& message) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  CodedInputStream counted(data, size);
  const CodedInputStream::Limit whole = counted.PushLimit(size);
  RETURN_IF_ERROR(FieldCounter(limits).Count(counted, *message.GetDescriptor(), /*depth=*/1));
  counted.PopLimit(whole);
  CodedInputStream input(data, size);
  input.SetRecursionLimit(limits.protobuf_depth);
  return message.ParseFromCodedStream(&input) && input.ConsumedEntireMessage() ? absl::OkStatus() : NotOnnx();
}

std::vector<std::string> UnknownTexts(const google::protobuf::Message& message, int field) {
  std::vector<std::string> texts;
  const google::protobuf::UnknownFieldSet& unknown = message.GetReflection()->GetUnknownFields(message);
  for (int k = 0; k < unknown.field_count(); ++k) {
    const google::protobuf::UnknownField& one = unknown.field(k);
    if (one.number() == field && one.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      texts.push_back(one.length_delimited());
    }
  }
  return texts;
}

std::string UnknownText(const google::protobuf::Message& message, int field) {
  std::vector<std::string> texts = UnknownTexts(message, field);
  return texts.empty() ? "" : std::move(texts.back());
}

absl::StatusOr<std::unique_ptr<onnx::ModelProto>> ParseOnnx(std::span<const std::byte> file,
                                                            const ImportLimits& limits) {
  // Protobuf itself reads at most 2^31 - 1 bytes.
  const int64_t limit_bytes = std::min<int64_t>(limits.file_bytes, std::numeric_limits<int>::max());
  if (static_cast<int64_t>(file.size()) > limit_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph is ", file.size(), " bytes long; at most ", limit_bytes,
                     " are accepted (make the parameters graph inputs and send them as weights)"));
  }
  if (file.empty()) return absl::InvalidArgumentError("the graph is an empty file");
  const auto* bytes = reinterpret_cast<const uint8_t*>(file.data());
  const int size = static_cast<int>(file.size());

  CodedInputStream counted(bytes, size);
  const CodedInputStream::Limit whole = counted.PushLimit(size);
  RETURN_IF_ERROR(FieldCounter(limits).Count(counted, *onnx::ModelProto::descriptor(), /*depth=*/1));
  counted.PopLimit(whole);

  auto model = std::make_unique<onnx::ModelProto>();
  CodedInputStream input(bytes, size);
  input.SetTotalBytesLimit(size);
  input.SetRecursionLimit(limits.protobuf_depth);
  if (!model->ParseFromCodedStream(&input) || !input.ConsumedEntireMessage()) return NotOnnx();
  if (!model->has_graph()) return absl::InvalidArgumentError("the file is not an ONNX model: it holds no graph");
  if (model->graph().node_size() > limits.nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has ", model->graph().node_size(), " nodes; at most ", limits.nodes, " are accepted"));
  }
  return model;
}

}  // namespace jacserve::worker
