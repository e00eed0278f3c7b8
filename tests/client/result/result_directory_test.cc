// The result folder: complete or absent, continued after an interruption, honest about a full disk.
#include "client/cpp/result/result_directory.h"

#include <sys/resource.h>

#include <csignal>
#include <set>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/client/test_jacobian.h"

namespace jacserve::client {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::set<std::string> FilesIn(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

std::unique_ptr<ResultDirectory> Open(const std::string& folder, const std::string& fingerprint = "f",
                                      std::optional<RowRange> rows = std::nullopt,
                                      Replace replace = Replace::kNothing) {
  absl::StatusOr<std::unique_ptr<ResultDirectory>> directory =
      ResultDirectory::Open(folder, fingerprint, rows, replace);
  EXPECT_TRUE(directory.ok()) << directory.status();
  return directory.ok() ? *std::move(directory) : nullptr;
}

// Every number of the folder is the test Jacobian's.
void ExpectComplete(const std::string& folder, const Layout& layout, bool rows_asked) {
  EXPECT_THAT(FilesIn(folder), UnorderedElementsAre("kernel.npy", "bias.npy", "value.npy", "index.json"));
  for (int block : {0, 1}) {
    const BlockLayout& b = layout.blocks[block];
    const absl::StatusOr<Array> array = ReadNpy(folder + "/" + b.name + ".npy");
    ASSERT_TRUE(array.ok()) << array.status();
    Shape shape = rows_asked ? Shape{layout.rows.count} : layout.target_shape;
    shape.insert(shape.end(), b.shape.begin(), b.shape.end());
    EXPECT_EQ(array->shape, shape);
    EXPECT_EQ(BytesOf(*array), NumbersText(b.dtype, block, layout.rows.begin * Elements(b.shape),
                                           layout.rows.count * Elements(b.shape)));
  }
  const absl::StatusOr<Array> value = ReadNpy(folder + "/value.npy");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->shape, layout.target_shape);
  EXPECT_EQ(BytesOf(*value), NumbersText(layout.value_dtype, -1, 0, layout.target_rows));
}

TEST(ResultDirectory, WritesEveryBlockInAnyOrderOfChunks) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const Layout layout = TestLayout(dtype);
    const std::string folder = TestFolder() + "/new/out";
    const auto directory = Open(folder);
    ASSERT_TRUE(directory->OnLayout(layout).ok());
    ASSERT_TRUE(SendValue(*directory, layout).ok());
    ASSERT_TRUE(SendRows(*directory, layout, {0, 6}, 1000, 7).ok());
    ASSERT_TRUE(SendRows(*directory, layout, {2, 2}, 24, 8).ok());
    EXPECT_THAT(FilesIn(folder), ElementsAre(".part")) << "no file may have its name before it is complete";
    ASSERT_TRUE(directory->Finish().ok());
    ExpectComplete(folder, layout, false);
  }
}

TEST(ResultDirectory, IndexSaysWhatIsThere) {
  const Layout layout = TestLayout();
  const std::string folder = TestFolder();
  const auto directory = Open(folder);
  ASSERT_TRUE(directory->OnLayout(layout).ok());
  ASSERT_TRUE(SendValue(*directory, layout).ok());
  ASSERT_TRUE(SendRows(*directory, layout, {0, 6}).ok());
  ASSERT_TRUE(directory->Finish().ok());
  const json index = json::parse(ReadText(folder + "/index.json"));
  EXPECT_EQ(index["row_begin"], 0);
  EXPECT_EQ(index["row_count"], 6);
  EXPECT_EQ(index["target_shape"], json({2, 3}));
  ASSERT_EQ(index["blocks"].size(), 3u);
  EXPECT_EQ(index["blocks"][0]["name"], "kernel");
  EXPECT_EQ(index["blocks"][0]["file"], "kernel.npy");
  EXPECT_EQ(index["blocks"][0]["shape"], json({2, 3, 700, 3}));
  EXPECT_EQ(index["blocks"][0]["dtype"], "float32");
  EXPECT_EQ(index["blocks"][0]["status"], "connected");
  EXPECT_EQ(index["blocks"][2]["name"], "unused");
  EXPECT_EQ(index["blocks"][2]["status"], "unconnected");
  EXPECT_TRUE(index["blocks"][2]["file"].is_null());
}

TEST(ResultDirectory, RowsAskedForBecomeTheLeadingAxis) {
  Layout layout = TestLayout();
  layout.rows = {2, 3};
  const std::string folder = TestFolder();
  const auto directory = Open(folder, "f", RowRange{2, 3});
  ASSERT_TRUE(directory->OnLayout(layout).ok());
  ASSERT_TRUE(SendValue(*directory, layout).ok());
  ASSERT_TRUE(SendRows(*directory, layout, {2, 3}, 100, 3).ok());
  ASSERT_TRUE(directory->Finish().ok());
  ExpectComplete(folder, layout, true);
  EXPECT_EQ(json::parse(ReadText(folder + "/index.json"))["row_begin"], 2);
}

TEST(ResultDirectory, EmptyResultsAreFilesToo) {
  Layout layout = TestLayout();
  layout.target_shape = {0, 3};
  layout.target_rows = 0;
  layout.rows = {0, 0};
  const std::string folder = TestFolder();
  const auto directory = Open(folder);
  ASSERT_TRUE(directory->OnLayout(layout).ok());
  ASSERT_TRUE(directory->Finish().ok());
  const absl::StatusOr<Array> bias = ReadNpy(folder + "/bias.npy");
  ASSERT_TRUE(bias.ok());
  EXPECT_THAT(bias->shape, ElementsAre(0, 3, 3));
}

// The rows of `rows` arrive and are saved; then the run ends without a word.
void InterruptedRun(const std::string& folder, const std::string& fingerprint, RowRange rows) {
  const Layout layout = TestLayout();
  const auto directory = Open(folder, fingerprint);
  ASSERT_TRUE(directory->OnLayout(layout).ok());
  ASSERT_TRUE(SendValue(*directory, layout).ok());
  ASSERT_TRUE(SendRows(*directory, layout, rows).ok());
  ASSERT_TRUE(directory->Save().ok());
  // Bytes of a row that is not done, wrong ones: they must not survive.
  const std::string junk(BlockText(layout, 0).size(), 'j');
  ASSERT_TRUE(SendChunk(*directory, 0, junk, 5 * layout.blocks[0].row_bytes, layout.blocks[0].row_bytes).ok());
}

TEST(ResultDirectory, ContinuesWithTheMissingRows) {
  const std::string folder = TestFolder();
  InterruptedRun(folder, "f", {1, 3});
  EXPECT_THAT(FilesIn(folder), ElementsAre(".part"));

  const Layout layout = TestLayout();
  const auto directory = Open(folder);
  EXPECT_THAT(directory->done_before().Ranges(), ElementsAre(RowRange{1, 3}));
  EXPECT_EQ(directory->rows_before(), std::optional(RowRange{0, 6}));
  ASSERT_TRUE(directory->OnLayout(layout).ok());
  ASSERT_TRUE(SendValue(*directory, layout).ok());
  ASSERT_TRUE(SendRows(*directory, layout, {0, 1}).ok());
  ASSERT_TRUE(SendRows(*directory, layout, {4, 2}).ok());
  ASSERT_TRUE(directory->Finish().ok());
  ExpectComplete(folder, layout, false);
}

TEST(ResultDirectory, AnotherRequestDoesNotThrowRowsAway) {
  const std::string folder = TestFolder();
  InterruptedRun(folder, "f", {1, 3});
  const auto other = ResultDirectory::Open(folder, "g", std::nullopt);
  EXPECT_TRUE(absl::IsFailedPrecondition(other.status())) << other.status();
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("3 of 6 rows of another request"));
  EXPECT_EQ(Open(folder, "f")->done_before().count(), 3);
  EXPECT_EQ(Open(folder, "g", std::nullopt, Replace::kResults)->done_before().count(), 0);
}

TEST(ResultDirectory, AnotherRequestStartsOverWhereNoRowIsDone) {
  const std::string folder = TestFolder();
  InterruptedRun(folder, "f", {1, 0});
  const auto directory = Open(folder, "g");
  EXPECT_EQ(directory->done_before().count(), 0);
  EXPECT_FALSE(directory->rows_before().has_value());
}

void FinishedRun(const std::string& folder, const std::string& fingerprint, const Layout& layout) {
  const auto directory = Open(folder, fingerprint, std::nullopt, Replace::kResults);
  ASSERT_TRUE(directory->OnLayout(layout).ok());
  ASSERT_TRUE(SendValue(*directory, layout).ok());
  ASSERT_TRUE(SendRows(*directory, layout, {0, 6}).ok());
  ASSERT_TRUE(directory->Finish().ok());
}

TEST(ResultDirectory, AnotherRequestDoesNotReplaceAResultUnasked) {
  const std::string folder = TestFolder();
  FinishedRun(folder, "f", TestLayout());
  const std::string index = ReadText(folder + "/index.json");
  const absl::Status other = ResultDirectory::Open(folder, "g", std::nullopt).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("result of another request (6 rows)"));
  EXPECT_THAT(std::string(other.message()), HasSubstr("--overwrite"));
  ExpectComplete(folder, TestLayout(), false);

  Open(folder, "g", std::nullopt, Replace::kResults).reset();
  EXPECT_EQ(ReadText(folder + "/index.json"), index) << "a result stays until the one that replaces it is complete";
  fs::create_directory(folder + "/.part");  // as a killed run leaves it before its first row
  EXPECT_TRUE(absl::IsFailedPrecondition(ResultDirectory::Open(folder, "g", std::nullopt).status()));
}

TEST(ResultDirectory, KnowsItsOwnFinishedResult) {
  const std::string folder = TestFolder();
  EXPECT_FALSE(Open(folder)->rows_finished().has_value());
  FinishedRun(folder, "f", TestLayout());
  EXPECT_EQ(Open(folder)->rows_finished(), std::optional<int64_t>(6));
  fs::remove(folder + "/bias.npy");
  EXPECT_FALSE(Open(folder)->rows_finished().has_value()) << "a file is missing";
}

TEST(ResultDirectory, AnIndexOfOthersIsNotReplaced) {
  const std::string folder = TestFolder();
  WriteText(folder + "/index.json", "{\"pages\": 3}");
  for (const Replace replace : {Replace::kNothing, Replace::kResults}) {
    const absl::Status status = ResultDirectory::Open(folder, "f", std::nullopt, replace).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("index.json"));
  }
}

TEST(ResultDirectory, TheFirstRowsAreRecordedAtOnce) {
  const std::string folder = TestFolder();
  const Layout layout = TestLayout();
  const auto directory = Open(folder);
  ASSERT_TRUE(directory->OnLayout(layout).ok());
  ASSERT_TRUE(SendValue(*directory, layout).ok());
  ASSERT_TRUE(SendRows(*directory, layout, {1, 2}).ok());
  // As a process finds it that was started after this one was killed.
  const json record = json::parse(ReadText(folder + "/.part/progress.json"), nullptr, false);
  EXPECT_EQ(record["done"], json::parse("[[1, 2]]"));
}

TEST(ResultDirectory, FilesOfAnEarlierResultDoNotStay) {
  const std::string folder = TestFolder();
  FinishedRun(folder, "f", TestLayout());
  WriteText(folder + "/notes.npy", "not ours");
  Layout fewer = TestLayout();
  fewer.blocks.resize(1);
  FinishedRun(folder, "g", fewer);
  EXPECT_THAT(FilesIn(folder), UnorderedElementsAre("index.json", "kernel.npy", "notes.npy", "value.npy"));
}

TEST(ResultDirectory, FilesOfOthersAreNotReplaced) {
  for (const std::string file : {"kernel.npy", "value.npy"}) {
    const std::string folder = TestFolder();
    WriteText(folder + "/" + file, "not ours");
    for (int run : {1, 2}) {
      SCOPED_TRACE(run);
      const auto directory = Open(folder);
      const absl::Status status = directory->OnLayout(TestLayout());
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(status.message()), HasSubstr("holds " + file));
    }
    EXPECT_EQ(fs::file_size(folder + "/" + file), 8u);
    EXPECT_THAT(FilesIn(folder), ElementsAre(file)) << "space was taken for nothing";
  }
}

TEST(ResultDirectory, DamagedRecordsOrPartsStartOver) {
  const std::string folder = TestFolder();
  for (const auto& [file, text] : {std::pair<std::string, std::string>{"progress.json", "{\"format\": 1"},
                                   {"progress.json", "[]"},
                                   {"progress.json",
                                    "{\"format\":1,\"fingerprint\":\"f\",\"rows\":[0,6],\"done\":[[4,9]],"
                                    "\"files\":{}}"},
                                   {"kernel.npy", "short"}}) {
    InterruptedRun(folder, "f", {1, 3});
    WriteText(folder + "/.part/" + file, text);
    EXPECT_EQ(Open(folder)->done_before().count(), 0) << file << " " << text;
    fs::remove_all(folder);
  }
  InterruptedRun(folder, "f", {1, 3});
  fs::remove(folder + "/.part/bias.npy");
  EXPECT_EQ(Open(folder)->done_before().count(), 0);
}

TEST(ResultDirectory, OtherBlocksThanBeforeAreAnErrorNotAMixture) {
  const std::string folder = TestFolder();
  InterruptedRun(folder, "f", {1, 3});
  const auto directory = Open(folder);
  Layout layout = TestLayout();
  layout.blocks[1].shape = {4};
  layout.blocks[1].row_bytes = 16;
  EXPECT_TRUE(absl::IsFailedPrecondition(directory->OnLayout(layout)));
}

TEST(ResultDirectory, ReplaysEarlierRowsToAnotherReceiver) {
  const std::string folder = TestFolder();
  InterruptedRun(folder, "f", {1, 3});
  const Layout layout = TestLayout();
  const auto directory = Open(folder);
  ASSERT_TRUE(directory->OnLayout(layout).ok());
  const auto copy = Open(folder + "/copy");
  ASSERT_TRUE(copy->OnLayout(layout).ok());
  ASSERT_TRUE(SendValue(*copy, layout).ok());
  ASSERT_TRUE(SendRows(*copy, layout, {0, 1}).ok());
  ASSERT_TRUE(SendRows(*copy, layout, {4, 2}).ok());
  ASSERT_TRUE(directory->Replay(*copy).ok());
  ASSERT_TRUE(copy->Finish().ok());
  ExpectComplete(folder + "/copy", layout, false);
}

TEST(ResultDirectory, TwoRunsDoNotWriteOneFolder) {
  const std::string folder = TestFolder();
  const auto first = Open(folder);
  const absl::Status second = ResultDirectory::Open(folder, "f", std::nullopt).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
  EXPECT_THAT(std::string(second.message()), HasSubstr("another run"));
}

TEST(ResultDirectory, ARunThatNeverBeganLeavesNothing) {
  const std::string folder = TestFolder();
  Open(folder).reset();
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST(ResultDirectory, AFileWhereTheFolderShouldBeIsAnError) {
  const std::string path = TestFolder() + "/file";
  WriteText(path, "x");
  EXPECT_TRUE(absl::IsInvalidArgument(ResultDirectory::Open(path, "f", std::nullopt).status()));
}

// A limit on the size of files stands in for a full disk: the same errors at the same calls.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const struct rlimit small = {bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~SmallDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  struct rlimit before_;
};

TEST(ResultDirectory, NoRoomIsKnownBeforeTheFirstRow) {
  const auto directory = Open(TestFolder());
  const SmallDisk disk(16'384);
  const absl::Status status = directory->OnLayout(TestLayout());
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no room"));
}

TEST(ResultDirectory, AFullDiskKeepsTheRowsThatAreDone) {
  const std::string folder = TestFolder();
  const Layout layout = TestLayout();
  {
    const auto directory = Open(folder);
    ASSERT_TRUE(directory->OnLayout(layout).ok());
    ASSERT_TRUE(SendValue(*directory, layout).ok());
    ASSERT_TRUE(SendRows(*directory, layout, {0, 2}).ok());
    const SmallDisk disk(layout.blocks[0].row_bytes * 3);
    const absl::Status status = SendRows(*directory, layout, {2, 4});
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(directory->Save().ok());
  }
  const auto directory = Open(folder);
  EXPECT_THAT(directory->done_before().Ranges(), ElementsAre(RowRange{0, 2}));
  ASSERT_TRUE(directory->OnLayout(layout).ok());
  ASSERT_TRUE(SendValue(*directory, layout).ok());
  ASSERT_TRUE(SendRows(*directory, layout, {2, 4}).ok());
  ASSERT_TRUE(directory->Finish().ok());
  ExpectComplete(folder, layout, false);
}

TEST(ResultDirectory, AnEarlierResultIsReplacedOnlyByACompleteOne) {
  const std::string folder = TestFolder();
  const Layout layout = TestLayout();
  const auto run = [&](bool finish) {
    const auto directory = Open(folder);
    ASSERT_TRUE(directory->OnLayout(layout).ok());
    ASSERT_TRUE(SendValue(*directory, layout).ok());
    ASSERT_TRUE(SendRows(*directory, layout, {0, 6}).ok());
    if (!finish) return;
    ASSERT_TRUE(directory->Finish().ok());
  };
  run(true);
  const std::string index = ReadText(folder + "/index.json");
  run(false);
  EXPECT_EQ(ReadText(folder + "/index.json"), index);
  run(true);
  ExpectComplete(folder, layout, false);
}

}  // namespace
}  // namespace jacserve::client
