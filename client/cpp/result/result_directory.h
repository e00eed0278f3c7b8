// Writes a Jacobian to a folder: one .npy per block, value.npy, and index.json that says what they are.
// In: pieces of rows in any order, some perhaps twice. Out: complete files, or none and a record to continue from.
//
// Until all is there, files grow in OUT/.part, at their final size, beside a record of the rows that are durable. A
// later run of the same request asks only for the others. index.json is written last, and says which request it
// answers.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/result/part_file.h"
#include "client/cpp/result/progress_file.h"
#include "client/cpp/row_receiver.h"

namespace jacserve::client {

// May what a folder holds of another request be replaced? Also then it stays until the new result is complete.
enum class Replace { kNothing, kResults };

class ResultDirectory : public RowReceiver {
 public:
  // `fingerprint` identifies the request. `rows`: those wanted, none for all. InvalidArgument: not a folder that can be
  // written. FailedPrecondition: another run writes it, or, unless it may be replaced, it holds another request's
  // result, or rows of one that was interrupted.
  static absl::StatusOr<std::unique_ptr<ResultDirectory>> Open(const std::string& path, const std::string& fingerprint,
                                                               std::optional<RowRange> rows,
                                                               Replace replace = Replace::kNothing);

  // What holds no row is not left behind.
  ~ResultDirectory() override;

  // The rows of the finished result of this very request, when it is there. Rows that come all the same replace it.
  std::optional<int64_t> rows_finished() const { return rows_finished_; }

  // Rows that an earlier run left, and the range that they are of; empty when there was none.
  const RowSet& done_before() const { return done_before_; }
  std::optional<RowRange> rows_before() const { return rows_before_; }

  // ResourceExhausted: no space for the result. FailedPrecondition: an earlier run's part files are of other shapes, or
  // a file that no result wrote would be replaced.
  absl::Status OnLayout(const Layout& layout) override;
  absl::Status OnValue(int64_t element_begin, std::span<const std::byte> data) override;
  absl::Status OnChunk(const ChunkData& chunk) override;
  absl::Status OnRowsDone(RowRange rows) override;

  // Hands the rows of the earlier run to `other`, which has seen the layout and the other rows already.
  absl::Status Replay(RowReceiver& other) const;

  // Makes the rows done durable and records them; call when a run ends before its last row.
  absl::Status Save();

  // All rows are there: files get their names, then index.json is written. Nothing of OUT/.part is left, nor of the
  // result that OUT held before.
  absl::Status Finish();

 private:
  struct BlockFile {
    std::string name;              // of the file, in OUT
    Shape shape;                   // of the whole array in it
    std::optional<PartFile> part;  // none: the block is unconnected
  };

  ResultDirectory(std::string path, std::string fingerprint, std::optional<RowRange> rows);

  absl::Status Lock();
  absl::Status LookAtFinished(Replace replace);
  absl::Status SparesFilesOfOthers() const;
  std::string IndexJson() const;
  Shape ArrayShape(const BlockLayout& block) const;

  std::string path_;
  std::string part_folder_;
  std::optional<RowRange> rows_asked_;
  Descriptor lock_;
  Progress progress_;
  RowSet done_before_;
  std::optional<RowRange> rows_before_;
  std::optional<int64_t> rows_finished_;
  bool finishing_before_ = false;  // an earlier run of this request had all rows: its files may have their names
  Layout layout_;
  std::vector<BlockFile> blocks_;
  std::optional<PartFile> value_;
  std::chrono::steady_clock::time_point save_at_;
  std::chrono::milliseconds save_after_;
};

}  // namespace jacserve::client
