// What a process does for itself at start, and knows about itself.
#pragma once

#include <cstdint>
#include <string>

namespace jacserve {

struct AllocatorOptions {
  // Free memory above this at the end of a heap goes back to the system. Small in a process whose RSS is bounded.
  int64_t keep_bytes = 2'000'000'000;
  // Heaps that threads share; each keeps free memory of its own. 0: as many as the C library likes (8 per core).
  int arenas = 0;
};

// Keeps large blocks in the heap instead of fresh mappings: touching new pages costs 20 times a warm write, and gRPC
// allocates a slice per message. Call first in main.
void TuneAllocator(const AllocatorOptions& options = {});

// Gives free memory of all heaps back to the system: after something large went that will not come again as it was.
void ReleaseFreeMemory();

int64_t PeakRssBytes();       // VmHWM of this process; 0 where it cannot be read
int64_t RssBytes();           // VmRSS of this process; 0 where it cannot be read
std::string ProcessorName();  // "AMD EPYC ..." for people

// Asks the kernel to kill this process with SIGKILL when its parent dies. `parent` is the parent's id as the starter
// told it, 0 when unknown: a parent that died before the call is noticed by it, and this process ends at once.
void DieWithParent(int64_t parent = 0);

}  // namespace jacserve
