// The functions of cuda_backend.h and device.h in a program that loads CUDA only when it is asked for: other programs
// need no CUDA libraries, and threads with small stacks are not burdened with cuBLAS's 92 KiB of thread-local memory.
#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/backend/cuda/module.h"

namespace jacserve::worker {
namespace {

// Where it lies beside the program, else wherever the system finds it.
std::string ModulePath() {
  std::error_code error;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / cuda::kModuleFile;
  return std::filesystem::exists(beside, error) ? beside.string() : cuda::kModuleFile;
}

absl::StatusOr<const cuda::Module*> Load() {
  // Without a driver there is no need to load cuBLAS, hundreds of MiB, to learn it.
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) return absl::FailedPreconditionError(kNoDriver);
  void* library = dlopen(ModulePath().c_str(), RTLD_NOW | RTLD_LOCAL);  // stays for the life of the process
  if (library == nullptr) {
    const std::string why = dlerror();
    if (absl::StartsWith(why, cuda::kModuleFile)) {  // it is this file that is missing, none that it needs
      return absl::FailedPreconditionError(
          absl::StrCat(cuda::kModuleFile,
                       " is not installed: the jacserve-server wheel leaves it out. Use programs that are built from "
                       "source where CUDA 13 is installed, or compute with --device cpu"));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("CUDA cannot be loaded: ", why,
                     "; install CUDA 13's runtime libraries (cudart, cuBLAS), or compute "
                     "with --device cpu"));
  }
  const auto get = reinterpret_cast<cuda::GetModule>(dlsym(library, cuda::kGetModule));
  JACSERVE_CHECK(get != nullptr);
  return get();
}

absl::StatusOr<const cuda::Module*> LoadedModule() {
  static const auto* module = new absl::StatusOr<const cuda::Module*>(Load());
  return *module;
}

}  // namespace

absl::StatusOr<CudaDevice> FindCudaDevice() {
  ASSIGN_OR_RETURN(const cuda::Module* module, LoadedModule());
  return module->find_device();
}

absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices() {
  ASSIGN_OR_RETURN(const cuda::Module* module, LoadedModule());
  return module->list_devices();
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(DType dtype, bool tf32) {
  ASSIGN_OR_RETURN(const cuda::Module* module, LoadedModule());
  return module->make_backend(dtype, tf32);
}

void ReleaseCudaDevice() {
  if (const absl::StatusOr<const cuda::Module*> module = LoadedModule(); module.ok()) (*module)->release_device();
}

}  // namespace jacserve::worker
