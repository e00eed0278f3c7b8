// Memory that only device work may touch.
#include "tests/cuda_sim/runtime/guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

namespace jacserve::cuda_sim {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kPage = 4096;
constexpr size_t kLarge = 4 << 20;
// Without keys every block of memory is protected and opened on its own, which takes longer than what computes there.
constexpr int64_t kAlwaysGuarded = 256, kGuardedOnceIn = 64;

size_t Pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

class Guard {
 public:
  static Guard& Get() {
    static Guard* const guard = new Guard;  // outlives whatever ends after main
    return *guard;
  }

  void* Map(size_t bytes) {
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const size_t inner = Pages(rounded);
    void* const outer = mmap(nullptr, inner + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (outer == MAP_FAILED) return nullptr;
    char* const pages = static_cast<char*>(outer) + kPage;
    const std::lock_guard lock(mutex_);
    blocks_[pages] = inner;
    Protect(pages, inner, key_ >= 0 || open_);
    if (inner >= kLarge) madvise(pages, inner, MADV_HUGEPAGE);  // first touched several times as fast
    return pages + (inner - rounded);
  }

  void Unmap(void* begin, size_t bytes) {
    const size_t inner = Pages((bytes + kAlignment - 1) / kAlignment * kAlignment);
    char* const pages = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(begin) / kPage * kPage);
    const std::lock_guard lock(mutex_);
    blocks_.erase(pages);
    munmap(pages - kPage, inner + 2 * kPage);
  }

  void Enter() {
    if (key_ >= 0) {
      pkey_set(key_, 0);
      return;
    }
    const std::lock_guard lock(mutex_);
    if (running_++ == 0 && !open_) ProtectAll(true);
  }

  void Leave() {
    if (key_ >= 0) {
      pkey_set(key_, PKEY_DISABLE_ACCESS);
      return;
    }
    const std::lock_guard lock(mutex_);
    if (--running_ > 0) return;
    if (++ends_ <= kAlwaysGuarded || ends_ % kGuardedOnceIn == 0) ProtectAll(false);
  }

  bool Contains(const void* address) {
    if (!mutex_.try_lock()) return false;  // called from a signal handler
    auto block = blocks_.upper_bound(static_cast<const char*>(address));
    const bool inside = block != blocks_.begin() && address < (--block)->first + block->second + kPage;
    mutex_.unlock();
    return inside;
  }

 private:
  Guard() : key_(std::getenv("JACSERVE_SIM_NO_KEYS") != nullptr ? -1 : pkey_alloc(0, PKEY_DISABLE_ACCESS)) {
    struct sigaction action = {};
    action.sa_sigaction = &OnFault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
  }

  // Says what happened; the access then faults again for whoever handled faults before.
  static void OnFault(int, siginfo_t* info, void*) {
    if (Get().Contains(info->si_addr)) {
      constexpr char kMessage[] =
          "cuda_sim: host code touched device memory, or device work went past the end of an allocation\n";
      (void)!write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
    }
    sigaction(SIGSEGV, &Get().before_, nullptr);
  }

  void Protect(char* pages, size_t bytes, bool open) {
    const int rights = open ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (key_ >= 0) {
      pkey_mprotect(pages, bytes, rights, key_);
    } else {
      mprotect(pages, bytes, rights);
    }
  }
  void ProtectAll(bool open) {
    open_ = open;
    for (const auto& [pages, bytes] : blocks_) Protect(pages, bytes, open);
  }

  const int key_;
  struct sigaction before_ = {};
  std::mutex mutex_;
  int running_ = 0;   // threads that do device work
  int64_t ends_ = 0;  // how often the last of them had done its own
  bool open_ = false;
  std::map<char*, size_t, std::less<>> blocks_;
};

thread_local int depth = 0;

}  // namespace

void* MapGuarded(size_t bytes) { return Guard::Get().Map(bytes); }
void UnmapGuarded(void* begin, size_t bytes) { Guard::Get().Unmap(begin, bytes); }

DeviceAccess::DeviceAccess() {
  if (depth++ == 0) Guard::Get().Enter();
}
DeviceAccess::~DeviceAccess() {
  if (--depth == 0) Guard::Get().Leave();
}

}  // namespace jacserve::cuda_sim
