// Rounding of float32 values to 16-bit formats.
#include <atomic>

#include "common/status.h"
#include "worker/backend/reference/reference_backend.h"

namespace jacserve::worker {
namespace {

template <float (*kRound)(float)>
HalfLoss RoundAll(int64_t n, float* x) {
  int64_t underflows = 0, overflows = 0;
  for (int64_t p = 0; p < n; ++p) {
    const float rounded = kRound(x[p]);
    underflows += rounded == 0.0f && x[p] != 0.0f;
    overflows += std::isinf(rounded) && !std::isinf(x[p]);
    x[p] = rounded;
  }
  return {underflows, overflows};
}

}  // namespace

template <class T>
void ReferenceBackend<T>::RoundToHalf(HalfFormat format, int64_t lanes, int64_t n, Lanes x, HalfLoss* loss) const {
  JACSERVE_CHECK(dtype() == DType::kFloat32);
  HalfLoss sum;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const HalfLoss one = format == HalfFormat::kFloat16 ? RoundAll<RoundToFloat16>(n, x.At<float>(lane))
                                                        : RoundAll<RoundToBfloat16>(n, x.At<float>(lane));
    sum.underflows += one.underflows;
    sum.overflows += one.overflows;
  }
  std::atomic_ref<int64_t>(loss->underflows) += sum.underflows;
  std::atomic_ref<int64_t>(loss->overflows) += sum.overflows;
}

template class ReferenceBackend<float>;
template class ReferenceBackend<double>;

}  // namespace jacserve::worker
