// .npy files: what is read, how, and that no damage gets past the header.
#include "client/cpp/array_io/npy.h"

#include <sys/resource.h>

#include <csignal>

#include "gmock/gmock.h"
#include "tests/client/test_arrays.h"

namespace jacserve::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A header as somebody else might write it.
std::string Npy(int version, const std::string& dict, const std::string& data) {
  std::string text("\x93NUMPY", 6);
  text += static_cast<char>(version);
  text += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) text += static_cast<char>(dict.size() >> (8 * i));
  return text + dict + data;
}

absl::StatusOr<Array> Parse(const std::string& text) { return ParseNpy(OwnedBytes(text), "a.npy"); }

TEST(Npy, ReadsBackWhatItWritesInEveryType) {
  const std::string path = TestFolder() + "/a.npy";
  const Array arrays[] = {
      MakeArray<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
      MakeArray<double>({}, {0.5}),
      MakeArray<int32_t>({1}, {-7}),
      MakeArray<int64_t>({3}, {1, -1, int64_t{1} << 60}),
      MakeArray<uint8_t>({2, 1}, {1, 0}),
      MakeArray<float>({0, 4}, {}),
  };
  for (const Array& array : arrays) {
    ASSERT_TRUE(WriteNpy(path, array).ok());
    const absl::StatusOr<Array> read = ReadNpy(path);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->dtype, array.dtype);
    EXPECT_EQ(read->shape, array.shape);
    EXPECT_EQ(BytesOf(*read), BytesOf(array));
    EXPECT_EQ(EncodeNpyHeader(array.dtype, array.shape).size() % 64, 0u);
    EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  }
}

TEST(Npy, MapsLargeFiles) {
  const std::string path = TestFolder() + "/large.npy";
  std::vector<float> values(600'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  ASSERT_TRUE(WriteNpy(path, MakeArray<float>({600, 1000}, values)).ok());
  const absl::StatusOr<Array> read = ReadNpy(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Values<float>(*read), values);
}

TEST(Npy, ReadsHeaderVersions1To3) {
  for (int version : {1, 2, 3}) {
    const auto array =
        Parse(Npy(version, "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n", std::string(8, 1)));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_THAT(array->shape, ElementsAre(2));
  }
  EXPECT_FALSE(Parse(Npy(4, "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n", std::string(8, 1))).ok());
}

TEST(Npy, ReadsDictionariesAsPythonMayWriteThem) {
  for (const char* dict : {
           "{'shape': (2,), 'descr': '<i4', 'fortran_order': False}",
           "{\"descr\": \"<i4\", \"fortran_order\": False, \"shape\": (2, )}\n",
           "  { 'descr':'<i4','fortran_order':False,'shape':(2L,), }   ",
       }) {
    const auto array = Parse(Npy(1, dict, std::string(8, 1)));
    ASSERT_TRUE(array.ok()) << dict << array.status();
    EXPECT_THAT(array->shape, ElementsAre(2));
  }
}

TEST(Npy, PutsFortranOrderIntoCOrder) {
  // Array [[0, 1, 2], [3, 4, 5]] by columns, and a 2 x 3 x 2 one.
  const Array flat = MakeArray<int32_t>({2, 3}, {0, 3, 1, 4, 2, 5});
  auto array = Parse(Npy(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n", BytesOf(flat)));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(Values<int32_t>(*array), ElementsAre(0, 1, 2, 3, 4, 5));

  std::vector<int64_t> by_columns;
  for (int k = 0; k < 2; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) by_columns.push_back(100 * i + 10 * j + k);
    }
  }
  array = Parse(Npy(1, "{'descr': '<i8', 'fortran_order': True, 'shape': (2, 3, 2), }\n",
                    BytesOf(MakeArray<int64_t>({12}, by_columns))));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(Values<int64_t>(*array), ElementsAre(0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121));
}

TEST(Npy, RefusesWildHeadersInWords) {
  const struct {
    const char* dict;
    const char* message;
  } cases[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }", "larger than any memory"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,), }", "larger than any memory"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000,), }", "bytes"},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "big-endian"},
      {"{'descr': '<f2', 'fortran_order': False, 'shape': (1,), }", "use float32"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "use float32"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "damaged"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, }", "damaged"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } trailing", "damaged"},
      {"", "damaged"},
  };
  for (const auto& c : cases) {
    const absl::Status status = Parse(Npy(1, c.dict, "\1\2\3\4")).status();
    EXPECT_FALSE(status.ok()) << c.dict;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.dict;
    EXPECT_THAT(std::string(status.message()), HasSubstr("a.npy")) << c.dict;
  }
  std::string many = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 65; ++i) many += "1,";
  EXPECT_FALSE(Parse(Npy(1, many + "), }", "\1\2\3\4")).ok());
}

TEST(Npy, RefusesEveryTruncationAndAnyExcess) {
  const std::string whole = NpyText(MakeArray<float>({2, 2}, {1, 2, 3, 4}));
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(Parse(whole.substr(0, size)).ok()) << size;
  EXPECT_FALSE(Parse(whole + "x").ok());
  EXPECT_TRUE(Parse(whole).ok());
}

TEST(Npy, SurvivesEveryBitFlip) {
  const std::string whole = NpyText(MakeArray<double>({2, 2}, {1, 2, 3, 4}));
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const absl::StatusOr<Array> array = Parse(flipped);
    if (array.ok()) {
      EXPECT_EQ(static_cast<int64_t>(array->bytes.size()), *ByteCount(array->shape, array->dtype));
    }
  }
}

TEST(Npy, NamesFilesThatAreNotThere) {
  EXPECT_TRUE(absl::IsNotFound(ReadNpy(TestFolder() + "/none.npy").status()));
  const absl::Status folder = ReadNpy(TestFolder()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(folder)) << folder;
}

TEST(WriteFileAtomically, LeavesTheOldFileWhenThereIsNoRoom) {
  const std::string path = TestFolder() + "/a.npy";
  const Array old = MakeArray<float>({1}, {1});
  ASSERT_TRUE(WriteNpy(path, old).ok());
  std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small = {4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = WriteNpy(path, MakeArray<float>({10'000}, std::vector<float>(10'000)));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  const absl::StatusOr<Array> read = ReadNpy(path);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(BytesOf(*read), BytesOf(old));
}

}  // namespace
}  // namespace jacserve::client
