// .npz archives: stored and deflated members, damage, and sizes that cannot be true.
#include "client/cpp/array_io/npz.h"

#include "client/cpp/array_io/tensor_file.h"
#include "gmock/gmock.h"
#include "tests/client/test_arrays.h"

namespace jacserve::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const NamedArrays& Arrays() {
  static const NamedArrays arrays = {
      {"a.weight", MakeArray<float>({3, 2}, {1, 2, 3, 4, 5, 6})},
      {"b/bias", MakeArray<double>({2}, {0.25, -1})},
      {"größe", MakeArray<int64_t>({}, {42})},
  };
  return arrays;
}

TEST(Npz, ReadsStoredAndDeflatedMembers) {
  for (bool deflate : {false, true}) {
    const std::string path = TestFolder() + "/a.npz";
    WriteNpz(path, Arrays(), deflate);
    const absl::StatusOr<NamedArrays> read = ReadTensorFile(path);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->size(), Arrays().size());
    for (size_t i = 0; i < read->size(); ++i) {
      EXPECT_EQ((*read)[i].first, Arrays()[i].first);
      EXPECT_EQ((*read)[i].second.shape, Arrays()[i].second.shape);
      EXPECT_EQ(BytesOf((*read)[i].second), BytesOf(Arrays()[i].second));
    }
  }
}

TEST(Npz, ReadsWhatNumpyWrote) {
  const absl::StatusOr<NpzFile> file = NpzFile::Open(Golden("mlp_tanh/expected.npz"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->names(), testing::IsSupersetOf({"value", "0.weight", "0.bias", "2.weight", "2.bias"}));
  const absl::StatusOr<Array> array = file->Read("0.weight");
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->shape, ElementsAre(5, 3, 7, 4));
  EXPECT_EQ(array->dtype, DType::kFloat64);
  EXPECT_TRUE(absl::IsNotFound(file->Read("3.weight").status()));
}

TEST(Npz, RefusesWhatIsNoArchiveOfArrays) {
  const std::string folder = TestFolder();
  EXPECT_TRUE(absl::IsNotFound(NpzFile::Open(folder + "/none.npz").status()));
  WriteText(folder + "/text.npz", "these are no arrays");
  EXPECT_TRUE(absl::IsInvalidArgument(NpzFile::Open(folder + "/text.npz").status()));
  WriteText(folder + "/empty.npz", "");
  EXPECT_FALSE(NpzFile::Open(folder + "/empty.npz").ok());
  WriteZip(folder + "/other.npz", {{"readme.txt", "hello"}}, false);
  const absl::Status other = NpzFile::Open(folder + "/other.npz").status();
  EXPECT_THAT(std::string(other.message()), HasSubstr("readme.txt"));
  WriteZip(folder + "/pickle.npz", {{"a.npy", "not an array"}}, false);
  EXPECT_THAT(std::string(ReadNpz(folder + "/pickle.npz").status().message()), HasSubstr("'a'"));
}

// Whatever is read without an error is what was written: each member has a checksum.
void ExpectErrorOrOriginal(const std::string& path) {
  const absl::StatusOr<NpzFile> file = NpzFile::Open(path);
  if (!file.ok()) return;
  for (const std::string& name : file->names()) {
    const absl::StatusOr<Array> array = file->Read(name);
    if (!array.ok()) continue;
    const bool original = std::any_of(Arrays().begin(), Arrays().end(), [&](const auto& entry) {
      return entry.second.shape == array->shape && BytesOf(entry.second) == BytesOf(*array);
    });
    EXPECT_TRUE(original) << name;
  }
}

class DamagedNpz : public testing::TestWithParam<bool> {};

TEST_P(DamagedNpz, EveryTruncationIsAnErrorOrHarmless) {
  const std::string path = TestFolder() + "/a.npz";
  WriteNpz(path, Arrays(), GetParam());
  const std::string whole = ReadText(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteText(path, whole.substr(0, size));
    EXPECT_FALSE(ReadNpz(path).ok()) << size;
  }
}

TEST_P(DamagedNpz, NoBitFlipChangesANumber) {
  const std::string path = TestFolder() + "/a.npz";
  WriteNpz(path, Arrays(), GetParam());
  const std::string whole = ReadText(path);
  for (size_t byte = 0; byte < whole.size(); ++byte) {
    std::string flipped = whole;
    flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << (byte % 8)));
    WriteText(path, flipped);
    ExpectErrorOrOriginal(path);
  }
}

INSTANTIATE_TEST_SUITE_P(StoredAndDeflated, DamagedNpz, testing::Bool());

TEST(Npz, DoesNotBelieveAnAbsurdSize) {
  const std::string path = TestFolder() + "/a.npz";
  WriteNpz(path, {{"a", MakeArray<float>({1}, {1})}}, true);
  std::string text = ReadText(path);
  // The uncompressed size in the central directory: 24 bytes behind its signature.
  const size_t directory = text.find("PK\1\2");
  ASSERT_NE(directory, std::string::npos);
  for (size_t i = 0; i < 4; ++i) text[directory + 24 + i] = '\xfe';
  WriteText(path, text);
  const absl::Status status = ReadNpz(path).status();
  EXPECT_FALSE(status.ok());
}

TEST(TensorFile, GoesByTheFilesEnding) {
  const absl::Status status = ReadTensorFile("weights.pt").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(".npz or .safetensors"));
}

}  // namespace
}  // namespace jacserve::client
