// What a request takes most of its memory for, in words, for the refusal of a budget.
#pragma once

#include <string>

#include "worker/engine/memory_plan.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

// "a tile of rows takes 60.0 MiB of it, the most for node conv1 (Conv)", or whatever takes the most.
std::string NeededBy(const SampleProgram& program, const MemoryNeeds& needs);

}  // namespace jacserve::worker
