#include "worker/backend/cuda/module.h"

extern "C" const jacserve::worker::cuda::Module* jacserve_cuda_module() {
  using namespace jacserve::worker;
  static constexpr cuda::Module kModule = {FindCudaDevice, ListCudaDevices, MakeCudaBackend, ReleaseCudaDevice};
  return &kModule;
}
