// What a process does for itself at start, and knows about itself.
#pragma once

#include <cstdint>
#include <string>

namespace jacserve {

// Keeps large blocks in the heap instead of fresh mappings: touching new pages costs 20 times a warm write, and gRPC
// allocates a slice per message. Call first in main.
void TuneAllocator();

int64_t PeakRssBytes();      // VmHWM of this process
std::string ProcessorName(); // "AMD EPYC ..." for people

// Asks the kernel to kill this process with SIGKILL when its parent dies.
void DieWithParent();

}  // namespace jacserve
