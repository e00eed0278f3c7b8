#include "worker/backend/cpu/cpu_backend.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "worker/backend/reference/reference_backend.h"

namespace jacserve::worker {
namespace {

class CpuBackend : public ReferenceBackend<float> {
 public:
  std::string_view name() const override { return "cpu"; }
  void PrepareThread() const override { omp_set_num_threads(1); }

  void Gemm(const GemmShape& s, int64_t lanes, ConstLanes a, ConstLanes b, Lanes c) const override {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, static_cast<float>(s.alpha),
                 a.At<float>(lane), s.lda, b.At<float>(lane), s.ldb, static_cast<float>(s.beta), c.At<float>(lane),
                 s.ldc);
    }
  }
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace jacserve::worker
