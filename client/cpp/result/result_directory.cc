#include "client/cpp/result/result_directory.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "client/cpp/array_io/file_bytes.h"
#include "client/cpp/result/file_names.h"
#include "client/cpp/text.h"
#include "common/status.h"
#include "nlohmann/json.hpp"

namespace jacserve::client {
namespace {

namespace fs = std::filesystem;

// Rows are recorded when the first are done, then ever more rarely: each time costs what came since, made durable.
constexpr std::chrono::milliseconds kFirstSaveAfter(250), kSaveEvery(5'000);
constexpr int64_t kReplayBytes = int64_t{1} << 20;
constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;
constexpr char kValueFile[] = "value.npy";
constexpr char kIndexFile[] = "index.json";

absl::Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? FileError(error.value(), to, "cannot be put in place") : absl::OkStatus();
}

// What an index.json says that a result wrote; nothing when it is no such file.
struct IndexFacts {
  std::string fingerprint;
  int64_t rows = 0;
  std::vector<std::string> files;  // of blocks; names alone, never a way out of the folder
};

std::optional<IndexFacts> ReadIndex(const std::string& path) {
  const absl::StatusOr<FileBytes> bytes = ReadFileBytes(path, kMaxIndexBytes);
  if (!bytes.ok()) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(bytes->bytes.data());
  const auto index = nlohmann::json::parse(text, text + bytes->bytes.size(), nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("blocks") || !index["blocks"].is_array()) return std::nullopt;
  IndexFacts facts;
  if (index.contains("fingerprint") && index["fingerprint"].is_string()) facts.fingerprint = index["fingerprint"];
  if (index.contains("row_count") && index["row_count"].is_number_integer()) facts.rows = index["row_count"];
  for (const auto& block : index["blocks"]) {
    if (!block.is_object() || !block.contains("file") || !block["file"].is_string()) continue;
    const fs::path file = block["file"].get<std::string>();
    if (file == file.filename() && file.extension() == ".npy") facts.files.push_back(file);
  }
  return facts;
}

}  // namespace

ResultDirectory::ResultDirectory(std::string path, std::string fingerprint, std::optional<RowRange> rows)
    : path_(std::move(path)), part_folder_(Cat(path_, "/.part")), rows_asked_(rows), save_after_(kFirstSaveAfter) {
  progress_.fingerprint = std::move(fingerprint);
}

absl::StatusOr<std::unique_ptr<ResultDirectory>> ResultDirectory::Open(const std::string& path,
                                                                       const std::string& fingerprint,
                                                                       std::optional<RowRange> rows, Replace replace) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return absl::InvalidArgumentError(Cat("--out ", path, ": cannot be created: ", error.message()));
  auto directory = std::unique_ptr<ResultDirectory>(new ResultDirectory(path, fingerprint, rows));
  RETURN_IF_ERROR(directory->Lock());
  std::optional<Progress> before = ReadProgress(directory->part_folder_);
  if (before && before->fingerprint == fingerprint) {
    directory->done_before_ = before->done;
    directory->rows_before_ = before->rows;
    directory->finishing_before_ = before->done.count() == before->rows.count;
    directory->progress_ = *std::move(before);
    return directory;
  }
  if (before && before->done.count() > 0 && replace == Replace::kNothing) {
    return absl::FailedPreconditionError(Cat("--out ", path, ": holds ", before->done.count(), " of ",
                                             before->rows.count, " rows of another request that was interrupted; ",
                                             "finish that one, choose another folder, or give --overwrite"));
  }
  RETURN_IF_ERROR(directory->LookAtFinished(replace));
  fs::remove_all(directory->part_folder_, error);
  if (!error) fs::create_directory(directory->part_folder_, error);
  if (error) return absl::InvalidArgumentError(Cat("--out ", path, ": cannot be written: ", error.message()));
  return directory;
}

ResultDirectory::~ResultDirectory() {
  std::error_code not_empty;
  fs::remove(part_folder_, not_empty);
}

absl::Status ResultDirectory::Lock() {
  lock_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock_.is_open()) return FileError(errno, path_, "cannot be opened");
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Cat("--out ", path_, ": another run is writing there; wait for it or choose another"));
}

absl::Status ResultDirectory::LookAtFinished(Replace replace) {
  const std::string path = Cat(path_, "/", kIndexFile);
  std::error_code error;
  if (!fs::exists(path, error)) return absl::OkStatus();
  const std::optional<IndexFacts> index = ReadIndex(path);
  if (index && index->fingerprint == progress_.fingerprint) {
    const bool all = std::all_of(index->files.begin(), index->files.end(),
                                 [&](const std::string& file) { return fs::exists(Cat(path_, "/", file), error); });
    if (all && fs::exists(Cat(path_, "/", kValueFile), error)) rows_finished_ = index->rows;
    return absl::OkStatus();
  }
  if (index && replace == Replace::kResults) return absl::OkStatus();
  return absl::FailedPreconditionError(
      index ? Cat("--out ", path_, ": holds the result of another request (", index->rows,
                  " rows); choose another folder, or give --overwrite to replace it once this one is complete")
            : Cat("--out ", path_, ": holds an ", kIndexFile,
                  " which is of no result there and would be replaced; move it, or choose another folder"));
}

Shape ResultDirectory::ArrayShape(const BlockLayout& block) const {
  Shape shape = rows_asked_ ? Shape{layout_.rows.count} : layout_.target_shape;
  shape.insert(shape.end(), block.shape.begin(), block.shape.end());
  return shape;
}

absl::Status ResultDirectory::SparesFilesOfOthers() const {
  if (finishing_before_) return absl::OkStatus();
  std::vector<std::string> replaced = {kValueFile}, own;
  if (std::optional<IndexFacts> index = ReadIndex(Cat(path_, "/", kIndexFile))) {
    own = std::move(index->files);
    own.push_back(kValueFile);
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (layout_.blocks[i].connected) replaced.push_back(blocks_[i].name);
  }
  for (const std::string& file : replaced) {
    std::error_code error;
    if (std::find(own.begin(), own.end(), file) != own.end() || !fs::exists(Cat(path_, "/", file), error)) continue;
    return absl::FailedPreconditionError(Cat("--out ", path_, ": holds ", file, ", which is of no result there and ",
                                             "would be replaced; move it, or choose another folder"));
  }
  return absl::OkStatus();
}

absl::Status ResultDirectory::OnLayout(const Layout& layout) {
  layout_ = layout;
  std::vector<std::string> names;
  for (const BlockLayout& block : layout.blocks) names.push_back(block.name);
  const std::vector<std::string> files = FileNamesFor(names);
  std::map<std::string, int64_t> file_bytes;
  const auto open = [&](const std::string& name, DType dtype, const Shape& shape) {
    file_bytes[name] = PartFile::SizeBytes(dtype, shape);
    return PartFile::Open(Cat(part_folder_, "/", name), dtype, shape);
  };
  for (size_t i = 0; i < files.size(); ++i) {
    blocks_.push_back({files[i], ArrayShape(layout.blocks[i]), std::nullopt});
  }
  RETURN_IF_ERROR(SparesFilesOfOthers());  // before any space is taken
  ASSIGN_OR_RETURN(value_, open(kValueFile, layout.value_dtype, layout.target_shape));
  for (size_t i = 0; i < files.size(); ++i) {
    if (!layout.blocks[i].connected) continue;
    ASSIGN_OR_RETURN(blocks_[i].part, open(files[i], layout.blocks[i].dtype, blocks_[i].shape));
  }
  if (rows_before_ && file_bytes != progress_.file_bytes) {
    return absl::FailedPreconditionError(
        Cat("--out ", path_, ": an earlier run left rows of other blocks there; remove ", part_folder_));
  }
  progress_.rows = layout.rows;
  progress_.file_bytes = std::move(file_bytes);
  return absl::OkStatus();
}

absl::Status ResultDirectory::OnValue(int64_t element_begin, std::span<const std::byte> data) {
  return value_->Write(element_begin * SizeOf(layout_.value_dtype), Pieces(&data, 1));
}

absl::Status ResultDirectory::OnChunk(const ChunkData& chunk) {
  const int64_t skipped_bytes = layout_.rows.begin * layout_.blocks[chunk.block].row_bytes;
  return blocks_[chunk.block].part->Write(chunk.byte_begin - skipped_bytes, chunk.pieces);
}

absl::Status ResultDirectory::OnRowsDone(RowRange rows) {
  progress_.done.Add(rows);
  if (std::chrono::steady_clock::now() < save_at_) return absl::OkStatus();
  RETURN_IF_ERROR(Save());
  save_at_ = std::chrono::steady_clock::now() + save_after_;
  save_after_ = std::min(save_after_ * 2, kSaveEvery);
  return absl::OkStatus();
}

absl::Status ResultDirectory::Replay(RowReceiver& other) const {
  std::vector<std::byte> buffer(kReplayBytes);
  for (const RowRange& rows : done_before_.Ranges()) {
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
      if (!blocks_[i].part) continue;
      const int64_t row_bytes = layout_.blocks[i].row_bytes;
      for (int64_t at = rows.begin * row_bytes; at < rows.end() * row_bytes;) {
        const int64_t size = std::min(kReplayBytes, rows.end() * row_bytes - at);
        const std::span<std::byte> bytes(buffer.data(), static_cast<size_t>(size));
        RETURN_IF_ERROR(blocks_[i].part->Read(at - layout_.rows.begin * row_bytes, bytes));
        const std::span<const std::byte> piece = bytes;
        RETURN_IF_ERROR(other.OnChunk({i, at, size, Pieces(&piece, 1)}));
        at += size;
      }
    }
    RETURN_IF_ERROR(other.OnRowsDone(rows));
  }
  return absl::OkStatus();
}

absl::Status ResultDirectory::Save() {
  if (progress_.file_bytes.empty()) return absl::OkStatus();  // no layout yet
  for (BlockFile& block : blocks_) {
    if (block.part) RETURN_IF_ERROR(block.part->Sync());
  }
  if (value_) RETURN_IF_ERROR(value_->Sync());
  return WriteProgress(part_folder_, progress_);
}

absl::Status ResultDirectory::Finish() {
  RETURN_IF_ERROR(Save());
  // The index of an earlier result must not describe a mixture, nor its other files stay behind without one.
  const std::optional<IndexFacts> earlier = ReadIndex(Cat(path_, "/", kIndexFile));
  std::error_code error;
  fs::remove(Cat(path_, "/", kIndexFile), error);
  if (earlier) {
    for (const std::string& file : earlier->files) fs::remove(Cat(path_, "/", file), error);
  }
  RETURN_IF_ERROR(Rename(value_->path(), Cat(path_, "/", kValueFile)));
  for (const BlockFile& block : blocks_) {
    if (block.part) RETURN_IF_ERROR(Rename(block.part->path(), Cat(path_, "/", block.name)));
  }
  RETURN_IF_ERROR(WriteFileAtomically(Cat(path_, "/", kIndexFile), IndexJson()));
  fs::remove_all(part_folder_, error);
  return absl::OkStatus();
}

std::string ResultDirectory::IndexJson() const {
  nlohmann::ordered_json index = {
      {"fingerprint", progress_.fingerprint},
      {"row_begin", layout_.rows.begin},
      {"row_count", layout_.rows.count},
      {"target_shape", layout_.target_shape},
      {"precision", NameOf(layout_.precision)},
      {"backend", layout_.backend},
      {"value", {{"file", kValueFile}, {"shape", layout_.target_shape}, {"dtype", NameOf(layout_.value_dtype)}}},
      {"blocks", nlohmann::ordered_json::array()},
  };
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const BlockLayout& block = layout_.blocks[i];
    nlohmann::ordered_json entry = {{"name", block.name}};
    entry["file"] = block.connected ? nlohmann::ordered_json(blocks_[i].name) : nlohmann::ordered_json();
    entry["shape"] = blocks_[i].shape;
    entry["parameter_shape"] = block.shape;
    entry["dtype"] = NameOf(block.dtype);
    entry["status"] = block.connected ? "connected" : "unconnected";
    index["blocks"].push_back(std::move(entry));
  }
  return index.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace jacserve::client
