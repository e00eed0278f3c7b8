#include "worker/backend/cuda/thread_context.h"

#include <utility>

#include "common/status.h"
#include "worker/backend/cuda/cuda_status.h"

namespace jacserve::worker::cuda {
namespace {

thread_local const ThreadContext* t_current = nullptr;

}  // namespace

absl::StatusOr<std::unique_ptr<ThreadContext>> ThreadContext::Make(const ProductOptions& options) {
  std::unique_ptr<ThreadContext> context(new ThreadContext);
  const auto status = [](cudaError_t error) {
    (void)cudaGetLastError();  // it is told here, and not again after the next launch
    return ToStatus(error, "another thread's stream and workspace");
  };
  RETURN_IF_ERROR(status(cudaSetDevice(0)));
  RETURN_IF_ERROR(status(cudaStreamCreateWithFlags(&context->stream_, cudaStreamNonBlocking)));
  RETURN_IF_ERROR(status(cudaMalloc(&context->memory_, Bytes(options))));
  const char* doing = "a thread's products";
  RETURN_IF_ERROR(ToStatus(cublasCreate(&context->products_), doing));
  RETURN_IF_ERROR(ToStatus(cublasSetStream(context->products_, context->stream_), doing));
  // float32 is float32 unless TF32 was asked for: no split of it. No atomics: sums keep their order.
  const cublasMath_t math = options.tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_PEDANTIC_MATH;
  RETURN_IF_ERROR(ToStatus(cublasSetMathMode(context->products_, math), doing));
  RETURN_IF_ERROR(ToStatus(cublasSetAtomicsMode(context->products_, CUBLAS_ATOMICS_NOT_ALLOWED), doing));
  RETURN_IF_ERROR(ToStatus(cublasSetPointerMode(context->products_, CUBLAS_POINTER_MODE_HOST), doing));
  RETURN_IF_ERROR(
      ToStatus(cublasSetWorkspace(context->products_, context->turns() + kTurns, options.workspace_bytes), doing));
  return context;
}

ThreadContext::~ThreadContext() {
  if (products_ != nullptr) cublasDestroy(products_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
  cudaFree(memory_);
}

class ThreadContextPool::Lease {
 public:
  Lease(std::shared_ptr<ThreadContextPool> pool, std::unique_ptr<ThreadContext> context)
      : pool_(std::move(pool)), context_(std::move(context)), before_(std::exchange(t_current, context_.get())) {}
  ~Lease() {
    cudaStreamSynchronize(context_->stream());  // an error stays with the process and is seen by who waits next
    t_current = before_;
    const std::lock_guard<std::mutex> lock(pool_->mutex_);
    pool_->idle_.push_back(std::move(context_));
  }

 private:
  const std::shared_ptr<ThreadContextPool> pool_;
  std::unique_ptr<ThreadContext> context_;
  const ThreadContext* before_;
};

absl::StatusOr<std::shared_ptr<void>> ThreadContextPool::Enter() {
  std::unique_ptr<ThreadContext> context;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      context = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (context == nullptr) {
    ASSIGN_OR_RETURN(context, ThreadContext::Make(products_));
  }
  RETURN_IF_ERROR(ToStatus(cudaSetDevice(0), "opening the GPU"));
  return std::make_shared<Lease>(shared_from_this(), std::move(context));
}

size_t ThreadContextPool::FreeIdle() {
  std::vector<std::unique_ptr<ThreadContext>> idle;
  const std::lock_guard<std::mutex> lock(mutex_);
  idle.swap(idle_);
  return idle.size();
}

const ThreadContext& ThreadContextPool::Current() {
  JACSERVE_CHECK(t_current != nullptr);
  return *t_current;
}

}  // namespace jacserve::worker::cuda
