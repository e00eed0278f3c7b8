#include "server/store/blob_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/metrics.h"
#include "common/size_text.h"
#include "common/status.h"

namespace jacserve::server {
namespace {

namespace fs = std::filesystem;

// A blob's file is DIRECTORY/blobs/HH/HEX.SIZE: a file that was cut short is known by its name.
constexpr char kBlobs[] = "blobs";
constexpr char kTemporaries[] = "incoming";

struct FoundBlob {
  std::string digest;
  int64_t size_bytes = 0;
  fs::file_time_type used;
};

// What the name says; none when it is not a blob's name or the file's size is another.
std::optional<FoundBlob> ReadEntry(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename();
  const size_t dot = name.find('.');
  FoundBlob found;
  std::error_code error;
  if (dot != 2 * kDigestBytes || !absl::SimpleAtoi(name.substr(dot + 1), &found.size_bytes)) return std::nullopt;
  found.digest = absl::HexStringToBytes(name.substr(0, dot));
  if (HexOf(found.digest) != name.substr(0, dot)) return std::nullopt;
  if (!entry.is_regular_file(error) || static_cast<int64_t>(entry.file_size(error)) != found.size_bytes) {
    return std::nullopt;
  }
  found.used = entry.last_write_time(error);
  return found;
}

void SetHeldGauge(int64_t bytes) {
  static prometheus::Gauge& gauge = MetricGauge("store_bytes", "Bytes of graphs and tensors that are held.");
  gauge.Set(static_cast<double>(bytes));
}

absl::Status CannotUse(const std::error_code& error) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot use the state directory: ", error.message(), "; give one that this user may write"));
}

}  // namespace

BlobUpload::~BlobUpload() { store_.Release(size_bytes_); }

absl::Status BlobUpload::Append(std::span<const std::byte> bytes) {
  if (static_cast<int64_t>(bytes.size()) > size_bytes_ - received_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat("more data than the ", size_bytes_, " bytes announced"));
  }
  received_bytes_ += static_cast<int64_t>(bytes.size());
  hash_.Update(bytes);
  return file_.Append(bytes);
}

absl::Status BlobUpload::Commit() {
  if (received_bytes_ != size_bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the upload ended after ", received_bytes_, " of the ", size_bytes_, " bytes announced"));
  }
  if (const std::string actual = hash_.Finish(); actual != digest_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the data's sha256 is ", HexOf(actual), ", announced was ", HexOf(digest_)));
  }
  RETURN_IF_ERROR(file_.Publish(store_.PathOf(digest_, size_bytes_)));
  store_.Insert(digest_, size_bytes_);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> BlobReader::ReadAt(int64_t offset, std::span<std::byte> out) const {
  const int64_t wanted = std::min<int64_t>(static_cast<int64_t>(out.size()), size_bytes_ - offset);
  int64_t done = 0;
  while (done < wanted) {
    const ssize_t got = pread(fd_.get(), out.data() + done, static_cast<size_t>(wanted - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::DataLossError("a stored blob is damaged; upload it again");
    done += got;
  }
  return done;
}

BlobPins::~BlobPins() { store_.Unpin(digests_); }

absl::StatusOr<int64_t> BlobPins::Add(const std::string& digest) {
  std::lock_guard lock(store_.mutex_);
  auto blob = store_.blobs_.find(digest);
  if (blob == store_.blobs_.end()) return absl::NotFoundError("not uploaded, or no longer held");
  ++blob->second.pins;
  digests_.push_back(digest);
  store_.Touch(digest, blob->second);
  return blob->second.size_bytes;
}

absl::StatusOr<std::unique_ptr<BlobStore>> BlobStore::Open(const fs::path& directory, int64_t quota_bytes) {
  std::error_code error;
  fs::create_directories(directory / kBlobs, error);
  if (error) return CannotUse(error);
  UniqueFd lock(open((directory / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.get() < 0) return CannotUse({errno, std::generic_category()});
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError("the state directory is in use by another coordinator; give each its own");
  }
  fs::remove_all(directory / kTemporaries, error);
  if (!error) fs::create_directories(directory / kTemporaries, error);
  if (error) return CannotUse(error);
  std::unique_ptr<BlobStore> store(new BlobStore(directory, quota_bytes, std::move(lock)));
  MetricGauge("store_quota_bytes", "Most bytes of graphs and tensors that are held.")
      .Set(static_cast<double>(quota_bytes));
  RETURN_IF_ERROR(store->Load());
  return store;
}

absl::Status BlobStore::Load() {
  std::vector<FoundBlob> found;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory_ / kBlobs, error), end; !error && it != end; it.increment(error)) {
    if (it->is_directory(error)) continue;
    if (std::optional<FoundBlob> blob = ReadEntry(*it)) {
      found.push_back(*std::move(blob));
    } else {
      fs::remove(it->path(), error);
    }
  }
  if (error) return CannotUse(error);
  std::sort(found.begin(), found.end(), [](const FoundBlob& a, const FoundBlob& b) { return a.used < b.used; });
  for (const FoundBlob& blob : found) Insert(blob.digest, blob.size_bytes);
  std::lock_guard lock(mutex_);
  return MakeRoom(0);  // the quota may be smaller than last time
}

bool BlobStore::Contains(const std::string& digest) {
  std::lock_guard lock(mutex_);
  auto blob = blobs_.find(digest);
  if (blob == blobs_.end()) return false;
  Touch(digest, blob->second);
  return true;
}

absl::StatusOr<std::unique_ptr<BlobUpload>> BlobStore::BeginUpload(const std::string& digest, int64_t size_bytes) {
  if (size_bytes < 0) return absl::InvalidArgumentError(absl::StrCat("a size of ", size_bytes, " bytes was announced"));
  fs::path temporary;
  {
    std::lock_guard lock(mutex_);
    auto blob = blobs_.find(digest);
    if (blob != blobs_.end()) {
      Touch(digest, blob->second);
      return nullptr;
    }
    RETURN_IF_ERROR(MakeRoom(size_bytes));
    reserved_bytes_ += size_bytes;
    temporary = directory_ / kTemporaries / absl::StrCat(next_temporary_++);
  }
  absl::StatusOr<DurableFile> file = DurableFile::Create(std::move(temporary));
  if (!file.ok()) {
    Release(size_bytes);
    return file.status();
  }
  return std::unique_ptr<BlobUpload>(new BlobUpload(*this, digest, size_bytes, *std::move(file)));
}

absl::StatusOr<BlobReader> BlobStore::OpenBlob(const std::string& digest) {
  std::lock_guard lock(mutex_);
  auto blob = blobs_.find(digest);
  if (blob == blobs_.end()) return absl::NotFoundError("not uploaded, or no longer held");
  UniqueFd fd(open(PathOf(digest, blob->second.size_bytes).c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) {  // removed behind our back: forget it, so that it can be uploaded again
    held_bytes_ -= blob->second.size_bytes;
    blobs_.erase(blob);
    return absl::DataLossError("a stored blob cannot be read; upload it again");
  }
  Touch(digest, blob->second);
  return BlobReader(std::move(fd), blob->second.size_bytes);
}

int64_t BlobStore::bytes() const {
  std::lock_guard lock(mutex_);
  return held_bytes_;
}

absl::Status BlobStore::MakeRoom(int64_t size_bytes) {
  if (size_bytes > quota_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("a blob of ", SizeText(size_bytes),
                                                     " is larger than the server's whole store quota of ",
                                                     SizeText(quota_bytes_), "; start it with a larger --store-quota"));
  }
  const auto fits = [&] { return held_bytes_ <= quota_bytes_ - size_bytes - reserved_bytes_; };
  while (!fits()) {
    auto oldest = blobs_.end();
    for (auto it = blobs_.begin(); it != blobs_.end(); ++it) {
      if (it->second.pins > 0) continue;
      if (oldest == blobs_.end() || it->second.last_use < oldest->second.last_use) oldest = it;
    }
    if (oldest == blobs_.end()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no room for a blob of ", SizeText(size_bytes), ": of the server's store quota of ",
                       SizeText(quota_bytes_), ", ", SizeText(held_bytes_), " are in use by jobs and ",
                       SizeText(reserved_bytes_), " by other uploads; try again later"));
    }
    unlink(PathOf(oldest->first, oldest->second.size_bytes).c_str());
    held_bytes_ -= oldest->second.size_bytes;
    blobs_.erase(oldest);
  }
  SetHeldGauge(held_bytes_);
  return absl::OkStatus();
}

// The time of a file's last use is its modification time, so that the order survives a restart.
void BlobStore::Touch(const std::string& digest, Blob& blob) {
  blob.last_use = next_use_++;
  utimensat(AT_FDCWD, PathOf(digest, blob.size_bytes).c_str(), nullptr, 0);
}

fs::path BlobStore::PathOf(std::string_view digest, int64_t size_bytes) const {
  const std::string hex = HexOf(digest);
  return directory_ / kBlobs / hex.substr(0, 2) / absl::StrCat(hex, ".", size_bytes);
}

void BlobStore::Release(int64_t reserved_bytes) {
  std::lock_guard lock(mutex_);
  reserved_bytes_ -= reserved_bytes;
}

void BlobStore::Insert(const std::string& digest, int64_t size_bytes) {
  std::lock_guard lock(mutex_);
  const auto [blob, is_new] = blobs_.try_emplace(digest, Blob{size_bytes, next_use_, 0});
  if (is_new) held_bytes_ += size_bytes;
  blob->second.last_use = next_use_++;
  SetHeldGauge(held_bytes_);
}

void BlobStore::Unpin(const std::vector<std::string>& digests) {
  std::lock_guard lock(mutex_);
  for (const std::string& digest : digests) {
    auto blob = blobs_.find(digest);
    if (blob != blobs_.end() && blob->second.pins > 0) --blob->second.pins;
  }
}

}  // namespace jacserve::server
