#include "client/cpp/array_io/npz.h"

#include <zip.h>

#include <map>

#include "client/cpp/array_io/file_bytes.h"
#include "client/cpp/array_io/npy.h"
#include "client/cpp/text.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

constexpr zip_uint64_t kMaxDeflateRatio = 1032;  // deflate cannot shrink further
constexpr zip_int64_t kMaxMembers = 1 << 20;
constexpr std::string_view kSuffix = ".npy";

struct ZipCloser {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct ZipFileCloser {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

absl::Status NotAnArchive(const std::string& path, std::string_view why) {
  return absl::InvalidArgumentError(Cat(path, ": not a readable .npz file: ", why));
}

}  // namespace

struct NpzFile::State {
  std::string path;
  std::unique_ptr<zip_t, ZipCloser> archive;
  std::vector<std::string> names;
  std::map<std::string, zip_uint64_t, std::less<>> index_of;
};

NpzFile::NpzFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
NpzFile::NpzFile(NpzFile&&) noexcept = default;
NpzFile& NpzFile::operator=(NpzFile&&) noexcept = default;
NpzFile::~NpzFile() = default;

const std::vector<std::string>& NpzFile::names() const { return state_->names; }

bool NpzFile::Has(std::string_view name) const { return state_->index_of.contains(name); }

absl::StatusOr<NpzFile> NpzFile::Open(const std::string& path) {
  RETURN_IF_ERROR(ReadFileBytes(path).status());  // its words for a missing file are better than libzip's
  auto state = std::make_unique<State>();
  state->path = path;
  int error = 0;
  state->archive.reset(zip_open(path.c_str(), ZIP_RDONLY, &error));
  if (!state->archive) {
    zip_error_t reason;
    zip_error_init_with_code(&reason, error);
    absl::Status status = NotAnArchive(path, zip_error_strerror(&reason));
    zip_error_fini(&reason);
    return status;
  }
  const zip_int64_t members = zip_get_num_entries(state->archive.get(), 0);
  if (members > kMaxMembers) return NotAnArchive(path, "too many members");
  for (zip_int64_t i = 0; i < members; ++i) {
    const char* raw_name = zip_get_name(state->archive.get(), static_cast<zip_uint64_t>(i), 0);
    const std::string_view member(raw_name == nullptr ? "" : raw_name);
    if (!member.ends_with(kSuffix)) return NotAnArchive(path, Cat("its member '", member, "' is not an array"));
    std::string name(member.substr(0, member.size() - kSuffix.size()));
    if (!state->index_of.emplace(name, static_cast<zip_uint64_t>(i)).second) {
      return NotAnArchive(path, Cat("it holds '", name, "' twice"));
    }
    state->names.push_back(std::move(name));
  }
  return NpzFile(std::move(state));
}

absl::StatusOr<Array> NpzFile::Read(std::string_view name) const {
  const auto found = state_->index_of.find(name);
  if (found == state_->index_of.end()) {
    return absl::NotFoundError(Cat(state_->path, ": holds no array '", name, "'"));
  }
  const std::string label = Cat(state_->path, ", array '", name, "'");
  zip_stat_t info;
  zip_stat_init(&info);
  constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  if (zip_stat_index(state_->archive.get(), found->second, 0, &info) != 0 || (info.valid & kNeeded) != kNeeded) {
    return absl::DataLossError(Cat(label, ": cannot be read"));
  }
  const bool plausible =
      info.comp_method == ZIP_CM_STORE ? info.size == info.comp_size : info.size / kMaxDeflateRatio <= info.comp_size;
  if (!plausible) return absl::InvalidArgumentError(Cat(label, ": its stated size cannot be true"));

  const std::unique_ptr<zip_file_t, ZipFileCloser> file(zip_fopen_index(state_->archive.get(), found->second, 0));
  if (!file) return absl::DataLossError(Cat(label, ": ", zip_strerror(state_->archive.get())));
  auto buffer = std::make_shared<std::vector<std::byte>>(info.size);
  zip_uint64_t done = 0;
  while (done < info.size) {
    const zip_int64_t got = zip_fread(file.get(), buffer->data() + done, info.size - done);
    if (got <= 0) return absl::DataLossError(Cat(label, ": ", zip_file_strerror(file.get())));
    done += static_cast<zip_uint64_t>(got);
  }
  // The checksum is only compared when a read meets the end.
  std::byte beyond;
  if (zip_fread(file.get(), &beyond, 1) != 0) return absl::DataLossError(Cat(label, ": damaged"));
  const std::span<const std::byte> bytes(*buffer);
  return ParseNpy(FileBytes{bytes, std::move(buffer)}, label);
}

absl::StatusOr<NamedArrays> ReadNpz(const std::string& path) {
  ASSIGN_OR_RETURN(const NpzFile file, NpzFile::Open(path));
  NamedArrays arrays;
  for (const std::string& name : file.names()) {
    ASSIGN_OR_RETURN(Array array, file.Read(name));
    arrays.emplace_back(name, std::move(array));
  }
  return arrays;
}

}  // namespace jacserve::client
