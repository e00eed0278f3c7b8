// Blobs on disk: complete or absent, within the quota, still there after a restart.
#include "server/store/blob_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace jacserve::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t kQuota = 1000;

std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string KeyOf(const std::string& text) { return Sha256Of(BytesOf(text)); }

class BlobStoreTest : public testing::Test {
 protected:
  BlobStoreTest() {
    std::string name = testing::TempDir() + "jacserve-store-XXXXXX";
    directory_ = mkdtemp(name.data());
    Reopen();
  }
  ~BlobStoreTest() override {
    store_.reset();
    fs::remove_all(directory_);
  }

  void Reopen(int64_t quota = kQuota) {
    store_.reset();
    auto store = BlobStore::Open(directory_, quota);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  absl::Status Put(const std::string& blob) {
    auto upload = store_->BeginUpload(KeyOf(blob), static_cast<int64_t>(blob.size()));
    if (!upload.ok()) return upload.status();
    if (*upload == nullptr) return absl::AlreadyExistsError("");
    const size_t half = blob.size() / 2;
    if (auto status = (*upload)->Append(BytesOf(blob.substr(0, half))); !status.ok()) return status;
    if (auto status = (*upload)->Append(BytesOf(blob.substr(half))); !status.ok()) return status;
    return (*upload)->Commit();
  }

  std::string Get(const std::string& key) {
    auto blob = store_->OpenBlob(key);
    if (!blob.ok()) return "";
    std::string text(static_cast<size_t>(blob->size_bytes()), '\0');
    EXPECT_TRUE(blob->ReadAt(0, std::as_writable_bytes(std::span(text))).ok());
    return text;
  }

  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
      if (entry.is_regular_file() && entry.path().filename() != "lock") files.push_back(entry.path());
    }
    return files;
  }

  // Through which this process has `file` open; -1 when it has not.
  static int DescriptorOf(const fs::path& file) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      if (fs::equivalent(entry.path(), file, error)) return std::stoi(entry.path().filename());
    }
    return -1;
  }

  fs::path directory_;
  std::unique_ptr<BlobStore> store_;
};

TEST_F(BlobStoreTest, WhatWasPutCanBeReadInPieces) {
  ASSERT_TRUE(Put("some bytes").ok());
  EXPECT_EQ(Get(KeyOf("some bytes")), "some bytes");
  auto blob = store_->OpenBlob(KeyOf("some bytes"));
  std::string piece(6, '-');
  EXPECT_EQ(*blob->ReadAt(7, std::as_writable_bytes(std::span(piece))), 3);
  EXPECT_EQ(piece, "tes---");
  EXPECT_EQ(store_->bytes(), 10);
  EXPECT_TRUE(absl::IsNotFound(store_->OpenBlob(KeyOf("others")).status()));
}

TEST_F(BlobStoreTest, EmptyBlobIsABlob) {
  ASSERT_TRUE(Put("").ok());
  EXPECT_TRUE(store_->Contains(KeyOf("")));
  Reopen();
  EXPECT_TRUE(store_->Contains(KeyOf("")));
}

TEST_F(BlobStoreTest, SecondUploadIsToldThatItIsThere) {
  ASSERT_TRUE(Put("twice").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Put("twice")));
  EXPECT_EQ(store_->bytes(), 5);
}

TEST_F(BlobStoreTest, TwoUploadsOfOneBlobAtOnceCountOnce) {
  auto first = *store_->BeginUpload(KeyOf("same"), 4);
  auto second = *store_->BeginUpload(KeyOf("same"), 4);
  for (auto* upload : {&first, &second}) {
    ASSERT_TRUE((*upload)->Append(BytesOf("same")).ok());
    ASSERT_TRUE((*upload)->Commit().ok());
  }
  EXPECT_EQ(store_->bytes(), 4);
  EXPECT_EQ(Get(KeyOf("same")), "same");
}

TEST_F(BlobStoreTest, WrongBytesLeaveNothingBehind) {
  {
    auto wrong = *store_->BeginUpload(KeyOf("abcd"), 4);
    ASSERT_TRUE(wrong->Append(BytesOf("abce")).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(wrong->Commit()));
    auto little = *store_->BeginUpload(KeyOf("abcd"), 4);
    ASSERT_TRUE(little->Append(BytesOf("abc")).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(little->Commit()));
    auto much = *store_->BeginUpload(KeyOf("abcd"), 4);
    EXPECT_TRUE(absl::IsInvalidArgument(much->Append(BytesOf("abcde"))));
  }
  EXPECT_TRUE(Files().empty());
  EXPECT_FALSE(store_->Contains(KeyOf("abcd")));
  EXPECT_TRUE(Put(std::string(kQuota, 'q')).ok());  // nothing is still reserved
}

TEST_F(BlobStoreTest, LeastRecentlyUsedMakesRoom) {
  const std::string a(400, 'a'), b(400, 'b'), c(400, 'c');
  ASSERT_TRUE(Put(a).ok());
  ASSERT_TRUE(Put(b).ok());
  EXPECT_TRUE(store_->Contains(KeyOf(a)));  // used after b
  ASSERT_TRUE(Put(c).ok());
  EXPECT_TRUE(store_->Contains(KeyOf(a)));
  EXPECT_FALSE(store_->Contains(KeyOf(b)));
  EXPECT_TRUE(store_->Contains(KeyOf(c)));
  EXPECT_EQ(store_->bytes(), 800);
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(BlobStoreTest, OrderOfUseSurvivesARestart) {
  const std::string a(400, 'a'), b(400, 'b'), c(400, 'c');
  ASSERT_TRUE(Put(a).ok());
  ASSERT_TRUE(Put(b).ok());
  const auto file_of_a = store_->Contains(KeyOf(a));
  EXPECT_TRUE(file_of_a);
  Reopen();
  ASSERT_TRUE(Put(c).ok());
  EXPECT_TRUE(store_->Contains(KeyOf(a)));
  EXPECT_FALSE(store_->Contains(KeyOf(b)));
}

TEST_F(BlobStoreTest, PinnedBlobsStay) {
  const std::string a(600, 'a'), b(600, 'b');
  ASSERT_TRUE(Put(a).ok());
  {
    BlobPins pins(*store_);
    EXPECT_EQ(*pins.Add(KeyOf(a)), 600);
    EXPECT_TRUE(absl::IsNotFound(pins.Add(KeyOf(b)).status()));
    const absl::Status full = Put(b);
    EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
    EXPECT_THAT(full.message(), HasSubstr("600"));
    EXPECT_TRUE(store_->Contains(KeyOf(a)));
  }
  EXPECT_TRUE(Put(b).ok());
  EXPECT_FALSE(store_->Contains(KeyOf(a)));
}

TEST_F(BlobStoreTest, UploadsUnderWayCountAgainstTheQuota) {
  auto first = *store_->BeginUpload(KeyOf("x"), 700);
  EXPECT_TRUE(absl::IsResourceExhausted(store_->BeginUpload(KeyOf("y"), 400).status()));
  first.reset();
  EXPECT_TRUE(store_->BeginUpload(KeyOf("y"), 400).ok());
}

TEST_F(BlobStoreTest, EvictedBlobStaysReadableWhereItIsOpen) {
  const std::string a(600, 'a');
  ASSERT_TRUE(Put(a).ok());
  auto reader = store_->OpenBlob(KeyOf(a));
  ASSERT_TRUE(Put(std::string(600, 'b')).ok());
  std::string text(600, '\0');
  EXPECT_EQ(*reader->ReadAt(0, std::as_writable_bytes(std::span(text))), 600);
  EXPECT_EQ(text, a);
}

TEST_F(BlobStoreTest, StartDropsWhatIsIncomplete) {
  ASSERT_TRUE(Put("whole").ok());
  ASSERT_TRUE(Put("cut short").ok());
  store_.reset();
  for (const fs::path& file : Files()) {
    if (fs::file_size(file) == 9) fs::resize_file(file, 4);
  }
  std::ofstream(directory_ / "incoming" / "17") << "half an upload";
  std::ofstream(directory_ / "blobs" / "stray") << "?";
  Reopen();
  EXPECT_TRUE(store_->Contains(KeyOf("whole")));
  EXPECT_FALSE(store_->Contains(KeyOf("cut short")));
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_TRUE(Put("cut short").ok());
}

TEST_F(BlobStoreTest, SmallerQuotaAtStartEvicts) {
  ASSERT_TRUE(Put(std::string(400, 'a')).ok());
  ASSERT_TRUE(Put(std::string(400, 'b')).ok());
  Reopen(500);
  EXPECT_EQ(store_->bytes(), 400);
}

TEST_F(BlobStoreTest, BlobWhoseFileVanishedCanBeUploadedAgain) {
  ASSERT_TRUE(Put("gone").ok());
  fs::remove(Files().front());
  EXPECT_TRUE(absl::IsDataLoss(store_->OpenBlob(KeyOf("gone")).status()));
  EXPECT_TRUE(Put("gone").ok());
  EXPECT_EQ(Get(KeyOf("gone")), "gone");
}

TEST_F(BlobStoreTest, SecondStoreOnTheDirectoryIsRefused) {
  EXPECT_TRUE(absl::IsFailedPrecondition(BlobStore::Open(directory_, kQuota).status()));
}

TEST_F(BlobStoreTest, FileTooLargeForTheDiskIsResourceExhausted) {
  Reopen(int64_t{10} << 20);
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{64 << 10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status status = Put(std::string(1 << 20, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(Files().empty());
  EXPECT_TRUE(Put(std::string(1 << 20, 'x')).ok());
}

// The kernel refuses every byte written to /dev/full as a full disk does, and nobody needs to be root to open it.
TEST_F(BlobStoreTest, DiskThatFillsUpDuringAnUploadIsResourceExhaustedAndLeavesNothing) {
  const std::string blob(kQuota, 'x');
  auto upload = *store_->BeginUpload(KeyOf(blob), kQuota);
  ASSERT_TRUE(upload->Append(BytesOf(blob.substr(0, 400))).ok());
  ASSERT_EQ(Files().size(), 1u);
  const int descriptor = DescriptorOf(Files().front());
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(dup3(full.get(), descriptor, O_CLOEXEC), descriptor);
  const absl::Status status = upload->Append(BytesOf(blob.substr(400)));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("disk is full"));
  upload.reset();
  EXPECT_TRUE(Files().empty());
  EXPECT_TRUE(Put(blob).ok());  // with room again, all of the quota is free
}

}  // namespace
}  // namespace jacserve::server
