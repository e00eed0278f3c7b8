// DepthToSpace and SpaceToDepth: blocks of b x b positions to or from channels, as Reshape, Transpose, Reshape.
// DCR: channels are (b, b, c); CRD: (c, b, b).
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

// Are channels (b, b, c), rather than (c, b, b)?
absl::StatusOr<bool> BlocksFirst(const Expansion& e) {
  ASSIGN_OR_RETURN(const std::string mode, StringAttribute(e.node(), "mode", "DCR"));
  if (mode != "DCR" && mode != "CRD") return absl::InvalidArgumentError(absl::StrCat("mode ", mode, " is not one"));
  return mode == "DCR";
}

absl::StatusOr<int64_t> BlockSize(const Expansion& e) {
  ASSIGN_OR_RETURN(const int64_t block, IntAttribute(e.node(), "blocksize", 0));
  if (!e.in().has(0) || e.shape(0).size() != 4) return absl::InvalidArgumentError("needs an input of four axes");
  if (block < 1 || block > 1 << 15) {
    return absl::InvalidArgumentError(absl::StrCat("a blocksize of ", block, " is out of range"));
  }
  return block;
}

void Rearrange(Expansion& e, Shape split, std::vector<int64_t> perm, Shape joined) {
  const Expansion::Attributes exact = {{"allowzero", int64_t{1}}};
  const std::string parts = e.Add("Reshape", {e.x(0), e.Ints(std::move(split))}, exact);
  const std::string moved = e.Add("Transpose", {parts}, {{"perm", std::move(perm)}});
  e.Output(0, e.Add("Reshape", {moved, e.Ints(std::move(joined))}, exact));
}

}  // namespace

absl::Status ExpandDepthToSpace(Expansion& e, int) {
  ASSIGN_OR_RETURN(const int64_t b, BlockSize(e));
  ASSIGN_OR_RETURN(const bool blocks_first, BlocksFirst(e));
  const Shape& x = e.shape(0);
  if (x[1] % (b * b) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("blocks of ", b, " do not divide the channels of ", ShapeText(x)));
  }
  const int64_t c = x[1] / (b * b);
  const Shape joined = {x[0], c, x[2] * b, x[3] * b};
  if (blocks_first) {
    Rearrange(e, {x[0], b, b, c, x[2], x[3]}, {0, 3, 4, 1, 5, 2}, joined);
  } else {
    Rearrange(e, {x[0], c, b, b, x[2], x[3]}, {0, 1, 4, 2, 5, 3}, joined);
  }
  return absl::OkStatus();
}

absl::Status ExpandSpaceToDepth(Expansion& e, int) {
  ASSIGN_OR_RETURN(const int64_t b, BlockSize(e));
  const Shape& x = e.shape(0);
  if (x[2] % b != 0 || x[3] % b != 0) {
    return absl::InvalidArgumentError(absl::StrCat("blocks of ", b, " do not divide the space of ", ShapeText(x)));
  }
  ASSIGN_OR_RETURN(const bool blocks_first, BlocksFirst(e));
  const std::vector<int64_t> perm =
      blocks_first ? std::vector<int64_t>{0, 3, 5, 1, 2, 4} : std::vector<int64_t>{0, 1, 3, 5, 2, 4};
  Rearrange(e, {x[0], x[1], x[2] / b, b, x[3] / b, b}, perm, {x[0], x[1] * b * b, x[2] / b, x[3] / b});
  return absl::OkStatus();
}

}  // namespace jacserve::worker
