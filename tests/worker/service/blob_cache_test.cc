// The cache keeps the latest used within its capacity and never takes bytes from who uses them.
#include "worker/service/blob_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

namespace jacserve::worker {
namespace {

struct Source {
  std::map<std::string, size_t> sizes;
  std::map<std::string, int> fetched;
  std::mutex mutex;

  FetchBlob Fetch() {
    return [this](const std::string& sha256, int64_t limit_bytes) -> absl::StatusOr<std::vector<std::byte>> {
      std::lock_guard lock(mutex);
      ++fetched[sha256];
      if (!sizes.contains(sha256)) return absl::NotFoundError("nobody holds it");
      if (static_cast<int64_t>(sizes[sha256]) > limit_bytes) return absl::ResourceExhaustedError("too large");
      return std::vector<std::byte>(sizes[sha256], std::byte{7});
    };
  }
};

TEST(BlobCacheTest, FetchesOnce) {
  Source source{.sizes = {{"a", 10}}};
  BlobCache cache(source.Fetch(), 100);
  for (int i = 0; i < 3; ++i) {
    absl::StatusOr<Blob> blob = cache.Get("a", 1000);
    ASSERT_TRUE(blob.ok()) << blob.status();
    EXPECT_EQ((*blob)->size(), 10u);
  }
  EXPECT_EQ(source.fetched["a"], 1);
  EXPECT_EQ(cache.size_bytes(), 10);
}

TEST(BlobCacheTest, TheLeastUsedGoesFirst) {
  Source source{.sizes = {{"a", 40}, {"b", 40}, {"c", 40}}};
  BlobCache cache(source.Fetch(), 100);
  ASSERT_TRUE(cache.Get("a", 1000).ok());
  ASSERT_TRUE(cache.Get("b", 1000).ok());
  ASSERT_TRUE(cache.Get("a", 1000).ok());
  ASSERT_TRUE(cache.Get("c", 1000).ok());  // b goes
  EXPECT_EQ(cache.size_bytes(), 80);
  ASSERT_TRUE(cache.Get("a", 1000).ok());
  ASSERT_TRUE(cache.Get("b", 1000).ok());
  EXPECT_EQ(source.fetched["a"], 1);
  EXPECT_EQ(source.fetched["b"], 2);
}

TEST(BlobCacheTest, BlobInUseOutlivesItsPlace) {
  Source source{.sizes = {{"a", 80}, {"b", 80}}};
  BlobCache cache(source.Fetch(), 100);
  const Blob a = *cache.Get("a", 1000);
  ASSERT_TRUE(cache.Get("b", 1000).ok());
  EXPECT_EQ(a->size(), 80u);
  EXPECT_EQ(a->back(), std::byte{7});
}

TEST(BlobCacheTest, LargeBlobIsHandedOutButNotKept) {
  Source source{.sizes = {{"a", 50}, {"large", 101}}};
  BlobCache cache(source.Fetch(), 100);
  ASSERT_TRUE(cache.Get("a", 1000).ok());
  EXPECT_EQ((*cache.Get("large", 1000))->size(), 101u);
  EXPECT_EQ(cache.size_bytes(), 50);
  EXPECT_EQ(cache.Get("large", 100).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(BlobCacheTest, ErrorsAreNotRemembered) {
  Source source;
  BlobCache cache(source.Fetch(), 100);
  EXPECT_EQ(cache.Get("a", 1000).status().code(), absl::StatusCode::kNotFound);
  source.sizes["a"] = 1;
  EXPECT_TRUE(cache.Get("a", 1000).ok());
}

TEST(BlobCacheTest, ManyThreadsStayWithinTheCapacity) {
  Source source;
  for (char name = 'a'; name <= 'z'; ++name) source.sizes[std::string(1, name)] = 10 + name - 'a';
  BlobCache cache(source.Fetch(), 100);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string name(1, static_cast<char>('a' + (i * (t + 3)) % 26));
        ASSERT_EQ((*cache.Get(name, 1000))->size(), source.sizes.at(name));
        ASSERT_LE(cache.size_bytes(), 100);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace jacserve::worker
