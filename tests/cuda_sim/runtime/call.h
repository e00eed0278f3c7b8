// The frame of every runtime call: locked, refused when there is no device or the context is broken, its error kept
// for cudaGetLastError.
#pragma once

#include "tests/cuda_sim/runtime/world.h"

namespace jacserve::cuda_sim {

// f(World&, Lock&) -> cudaError_t.
template <class F>
cudaError_t Call(F f) {
  World& world = World::Get();
  Lock lock(world.mutex);
  cudaError_t error = world.Ready();
  if (error == cudaSuccess) error = f(world, lock);
  if (error == cudaSuccess) error = world.sticky;
  return Remember(error);
}

}  // namespace jacserve::cuda_sim
