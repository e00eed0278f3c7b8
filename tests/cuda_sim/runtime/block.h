// A block of CUDA threads on one thread of the host: each has a stack of its own and runs until it meets a barrier or
// ends. In: Options::blocks. What a real block leaves undefined is a misuse: a barrier that some threads never meet,
// and writing beyond the shared memory that was asked for, which begins as garbage.
#pragma once

#include <cstddef>
#include <functional>

namespace jacserve::cuda_sim {

// Runs `body` once for every thread of a block.
void RunBlock(int threads, size_t shared_bytes, const std::function<void()>& body);

// Of the block that runs: where and among how many a thread is, the barrier, and the shared memory.
int BlockThread();
int BlockThreads();
void SyncBlock();
void* SharedMemory();

}  // namespace jacserve::cuda_sim
