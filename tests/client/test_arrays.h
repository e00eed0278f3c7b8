// Small arrays and files for the client's tests. In: numbers. Out: arrays, bytes, files under testing::TempDir().
#pragma once

#include <zip.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "client/cpp/array_io/array.h"
#include "client/cpp/array_io/file_bytes.h"
#include "client/cpp/array_io/npy.h"
#include "gtest/gtest.h"

namespace jacserve::client {

template <class T>
constexpr DType DTypeOfType() {
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DType::kFloat64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kInt64;
  return DType::kBool;
}

inline FileBytes OwnedBytes(const std::string& text) {
  auto copy = std::make_shared<std::string>(text);
  return {std::as_bytes(std::span<const char>(*copy)), copy};
}

template <class T>
Array MakeArray(Shape shape, const std::vector<T>& values) {
  FileBytes bytes = OwnedBytes(std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  return {DTypeOfType<T>(), std::move(shape), bytes.bytes, bytes.keep_alive};
}

template <class T>
std::vector<T> Values(const Array& array) {
  std::vector<T> values(array.bytes.size() / sizeof(T));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

inline std::string BytesOf(const Array& array) {
  return std::string(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
}

inline std::string NpyText(const Array& array) { return EncodeNpyHeader(array.dtype, array.shape) + BytesOf(array); }

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline void WriteText(const std::string& path, const std::string& text) {
  std::filesystem::remove(path);  // some file systems flush a file that is cut and written again
  std::ofstream(path, std::ios::binary) << text;
}

// A fresh empty folder, other for each test.
inline std::string TestFolder() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + "." + test->name();
  for (char& c : name) c = c == '/' ? '_' : c;
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("jacserve_client." + name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder.string();
}

// An archive of any members, by libzip.
inline void WriteZip(const std::string& path, const std::vector<std::pair<std::string, std::string>>& members,
                     bool deflate) {
  std::filesystem::remove(path);
  int error = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_EXCL, &error);
  ASSERT_NE(archive, nullptr);
  for (const auto& [name, data] : members) {
    zip_source_t* source = zip_source_buffer(archive, data.data(), data.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    ASSERT_GE(index, 0);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
}

inline void WriteNpz(const std::string& path, const NamedArrays& arrays, bool deflate = true) {
  std::vector<std::pair<std::string, std::string>> members;
  for (const auto& [name, array] : arrays) members.emplace_back(name + ".npy", NpyText(array));
  WriteZip(path, members, deflate);
}

inline std::string Golden(const std::string& file) { return std::string(std::getenv("JACSERVE_GOLDEN")) + "/" + file; }

}  // namespace jacserve::client
