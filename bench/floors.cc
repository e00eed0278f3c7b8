#include "bench/floors.h"

#include <cblas.h>
#include <emmintrin.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace jacserve::bench {

double SecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double BestSecondsOf(int runs, const std::function<void()>& work) {
  work();
  double best = 1e30;
  for (int run = 0; run < runs; ++run) best = std::min(best, SecondsOf(work));
  return best;
}

double GemmPeak(int threads) {
  constexpr int n = 1536;
  std::vector<float> a(n * n, 1.0f), b(n * n, 0.5f), c(n * n);
  omp_set_num_threads(threads);
  openblas_set_num_threads(threads);
  const double onednn =
      BestSecondsOf(5, [&] { dnnl_sgemm('N', 'N', n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n); });
  const double openblas = BestSecondsOf(5, [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n);
  });
  return 2.0 * n * n * n / std::min(onednn, openblas);
}

double NonTemporalFill(int threads) {
  constexpr int64_t kBytesPerThread = int64_t{256} << 20;
  struct Free {
    void operator()(float* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::vector<std::unique_ptr<float[], Free>> memory;
  for (int t = 0; t < threads; ++t) {
    memory.emplace_back(new (std::align_val_t{64}) float[kBytesPerThread / sizeof(float)]());
  }
  const double seconds = BestSecondsOf(5, [&] {
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([p = memory[t].get()] {
        const __m128 value = _mm_set1_ps(1.0f);
        for (int64_t k = 0; k < kBytesPerThread / 4; k += 4) _mm_stream_ps(p + k, value);
        _mm_sfence();
      });
    }
  });
  return static_cast<double>(threads) * kBytesPerThread / seconds;
}

}  // namespace jacserve::bench
