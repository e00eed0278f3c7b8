#include "tests/cuda_sim/runtime/block.h"

#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/cuda_sim/runtime/world.h"

namespace jacserve::cuda_sim {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10, kGuardBytes = 64;
constexpr int kGarbage = 0xff;  // as numbers: NaN

struct Fiber {
  ucontext_t context = {};
  std::unique_ptr<std::byte[]> stack{new std::byte[kStackBytes]};
  bool ended = false;
};

struct Block {
  int thread = 0, threads = 1;
  std::vector<std::max_align_t> shared;
  ucontext_t scheduler = {};
  const std::function<void()>* body = nullptr;
};

thread_local Block t_block;
thread_local std::vector<Fiber> t_fibers;  // their stacks are used again

void Start() {
  (*t_block.body)();
  t_fibers[t_block.thread].ended = true;
}

void Misuse(const char* sentence) {
  World& world = World::Get();
  const Lock lock(world.mutex);
  world.Misuse(sentence);
}

void Prepare(Fiber& fiber) {
  fiber.ended = false;
  getcontext(&fiber.context);
  fiber.context.uc_stack = {.ss_sp = fiber.stack.get(), .ss_flags = 0, .ss_size = kStackBytes};
  fiber.context.uc_link = &t_block.scheduler;
  makecontext(&fiber.context, Start, 0);
}

// One thread from barrier to barrier, or to its end.
void Resume(int thread) {
  t_block.thread = thread;
  swapcontext(&t_block.scheduler, &t_fibers[thread].context);
}

// All threads side by side; those that wait at a barrier go on when every one has met it.
void RunFibers(bool backward) {
  const int threads = t_block.threads;
  if (t_fibers.size() < static_cast<size_t>(threads)) t_fibers.resize(threads);
  for (int t = 0; t < threads; ++t) Prepare(t_fibers[t]);
  for (int ended = 0; ended < threads;) {
    for (int i = 0; i < threads; ++i) Resume(backward ? threads - 1 - i : i);
    ended = static_cast<int>(
        std::count_if(t_fibers.begin(), t_fibers.begin() + threads, [](const Fiber& f) { return f.ended; }));
    if (ended > 0 && ended < threads) return Misuse("some threads of a block ended, and others wait at a barrier");
  }
}

}  // namespace

void RunBlock(int threads, size_t shared_bytes, const std::function<void()>& body) {
  const Blocks blocks = World::Get().options.blocks;
  t_block.threads = blocks == Blocks::kOneThread ? 1 : threads;
  t_block.thread = 0;
  t_block.body = &body;
  t_block.shared.resize((shared_bytes + kGuardBytes) / sizeof(std::max_align_t) + 1);
  std::memset(t_block.shared.data(), kGarbage, t_block.shared.size() * sizeof(std::max_align_t));
  if (blocks == Blocks::kOneThread) {
    body();
  } else {
    RunFibers(blocks == Blocks::kBackward);
  }
  const auto* guard = reinterpret_cast<const unsigned char*>(t_block.shared.data()) + shared_bytes;
  if (std::any_of(guard, guard + kGuardBytes, [](unsigned char byte) { return byte != kGarbage; })) {
    Misuse("a block wrote beyond its shared memory");
  }
}

int BlockThread() { return t_block.thread; }
int BlockThreads() { return t_block.threads; }
void* SharedMemory() { return t_block.shared.data(); }

void SyncBlock() {
  if (t_block.threads > 1) swapcontext(&t_fibers[t_block.thread].context, &t_block.scheduler);
}

}  // namespace jacserve::cuda_sim
