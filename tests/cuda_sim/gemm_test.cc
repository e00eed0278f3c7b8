// cuBLAS' products against plain loops, and every rule that its arguments are under.
#include <cublas_v2.h>

#include <functional>
#include <random>
#include <thread>

#include "tests/cuda_sim/sim_test.h"

namespace jacserve::cuda_sim {
namespace {

class GemmTest : public SimTest {
 protected:
  GemmTest() { EXPECT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS); }
  void TearDown() override {
    EXPECT_EQ(cublasDestroy(handle_), CUBLAS_STATUS_SUCCESS);
    SimTest::TearDown();
  }

  cublasHandle_t handle_ = nullptr;
  const float one_ = 1.0f, zero_ = 0.0f;
};

struct Shape {
  cublasOperation_t op_a, op_b;
  int m, n, k, lda, ldb, ldc;
};

template <class T>
std::vector<T> Random(int64_t n, int seed) {
  std::mt19937 random(seed);
  std::vector<T> values(n);
  for (T& value : values) value = static_cast<T>(static_cast<int>(random() % 17) - 8);
  return values;
}

// Column order, sums in double. Entries between the columns of C stay.
template <class T>
std::vector<T> Expected(const Shape& s, double alpha, const T* a, const T* b, double beta, std::vector<T> c) {
  for (int j = 0; j < s.n; ++j) {
    for (int i = 0; i < s.m; ++i) {
      double sum = 0.0;
      for (int l = 0; l < s.k; ++l) {
        sum += static_cast<double>(s.op_a == CUBLAS_OP_N ? a[l * s.lda + i] : a[i * s.lda + l]) *
               static_cast<double>(s.op_b == CUBLAS_OP_N ? b[j * s.ldb + l] : b[l * s.ldb + j]);
      }
      T& out = c[j * s.ldc + i];
      out = static_cast<T>(alpha * sum + (beta == 0 ? 0.0 : beta * static_cast<double>(out)));
    }
  }
  return c;
}

const Shape kShapes[] = {
    {CUBLAS_OP_N, CUBLAS_OP_N, 5, 7, 3, 5, 3, 5},    {CUBLAS_OP_T, CUBLAS_OP_N, 5, 7, 3, 4, 6, 9},
    {CUBLAS_OP_N, CUBLAS_OP_T, 16, 8, 9, 17, 8, 16}, {CUBLAS_OP_T, CUBLAS_OP_T, 1, 33, 20, 20, 40, 2},
    {CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 0, 4, 1, 4},
};

template <class T, class Call>
void ExpectProducts(Call call) {
  for (const Shape& s : kShapes) {
    for (const double beta : {0.0, 2.0}) {
      const std::vector<T> a = Random<T>(2000, 1), b = Random<T>(2000, 2), c = Random<T>(400, 3);
      const OnDevice<T> da(a), db(b), dc(c);
      const T alpha_value = 3, beta_value = static_cast<T>(beta);
      ASSERT_EQ(call(s, &alpha_value, da.get(), db.get(), &beta_value, dc.get()), CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(dc.Values(), Expected(s, 3.0, a.data(), b.data(), beta, c)) << s.m << " " << s.n << " " << s.k;
    }
  }
}

TEST_F(GemmTest, FloatAgreesWithPlainLoops) {
  ExpectProducts<float>([&](const Shape& s, auto alpha, auto a, auto b, auto beta, auto c) {
    return cublasSgemm(handle_, s.op_a, s.op_b, s.m, s.n, s.k, alpha, a, s.lda, b, s.ldb, beta, c, s.ldc);
  });
}

TEST_F(GemmTest, DoubleAgreesWithPlainLoops) {
  ExpectProducts<double>([&](const Shape& s, auto alpha, auto a, auto b, auto beta, auto c) {
    return cublasDgemm(handle_, s.op_a, s.op_b, s.m, s.n, s.k, alpha, a, s.lda, b, s.ldb, beta, c, s.ldc);
  });
}

// Batches of 2 x 2 products, strided and by pointers, in an order of their own.
TEST_F(GemmTest, BatchesAgreeWithPlainLoops) {
  const std::vector<float> a = Random<float>(12, 4), b = Random<float>(12, 5);
  const Shape s = {CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, 2, 2, 2};
  const OnDevice<float> da(a), db(b), strided(12), pointers(12);
  EXPECT_EQ(cublasSgemmStridedBatched(handle_, s.op_a, s.op_b, 2, 2, 2, &one_, da.get(), 2, 4, db.get(), 2, 0, &zero_,
                                      strided.get(), 2, 4, 3),
            CUBLAS_STATUS_SUCCESS);
  const OnDevice<const float*> pa({da.get() + 8, da.get(), da.get() + 4}), pb({db.get(), db.get(), db.get()});
  const OnDevice<float*> pc({pointers.get() + 8, pointers.get(), pointers.get() + 4});
  EXPECT_EQ(
      cublasSgemmBatched(handle_, s.op_a, s.op_b, 2, 2, 2, &one_, pa.get(), 2, pb.get(), 2, &zero_, pc.get(), 2, 3),
      CUBLAS_STATUS_SUCCESS);
  std::vector<float> expected;
  for (int batch = 0; batch < 3; ++batch) {
    const std::vector<float> c = Expected(s, 1.0, a.data() + 4 * batch, b.data(), 0.0, std::vector<float>(4));
    expected.insert(expected.end(), c.begin(), c.end());
  }
  EXPECT_EQ(strided.Values(), expected);
  EXPECT_EQ(pointers.Values(), expected);
}

// 1 + 2^-12 is a float32 number and no TF32 number.
TEST_F(GemmTest, Tf32OnlyOnRequest) {
  const float factor = 1.0f + 0x1p-12f;
  const OnDevice<float> a(std::vector<float>{factor}), b(std::vector<float>{1.0f}), c(1);
  const auto product = [&] {
    EXPECT_EQ(
        cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one_, a.get(), 1, b.get(), 1, &zero_, c.get(), 1),
        CUBLAS_STATUS_SUCCESS);
    return c.Values()[0];
  };
  EXPECT_EQ(product(), factor);
  EXPECT_EQ(Read().tf32_products, 0);
  ASSERT_EQ(cublasSetMathMode(handle_, CUBLAS_TF32_TENSOR_OP_MATH), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product(), 1.0f);
  EXPECT_EQ(Read().tf32_products, 1);
  ASSERT_EQ(cublasSetMathMode(handle_, CUBLAS_PEDANTIC_MATH), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product(), factor);
}

TEST_F(GemmTest, RefusesWhatItDocuments) {
  const OnDevice<float> x(64);
  const auto call = [&](cublasOperation_t op_a, int m, int n, int k, int lda, int ldb, int ldc, const float* alpha,
                        float* c) {
    return cublasSgemm(handle_, op_a, CUBLAS_OP_N, m, n, k, alpha, x.get(), lda, x.get(), ldb, &zero_, c, ldc);
  };
  const auto n = CUBLAS_OP_N, t = CUBLAS_OP_T;
  struct Case {
    const char* what;
    cublasStatus_t status;
  };
  const Case cases[] = {
      {"m < 0", call(n, -1, 2, 2, 2, 2, 2, &one_, x.get())},
      {"lda < m", call(n, 3, 2, 2, 2, 2, 3, &one_, x.get())},
      {"lda < k, transposed", call(t, 2, 2, 3, 2, 3, 2, &one_, x.get())},
      {"ldb < k", call(n, 2, 2, 3, 2, 2, 2, &one_, x.get())},
      {"ldc < m", call(n, 3, 2, 2, 3, 2, 2, &one_, x.get())},
      {"ld 0", call(n, 0, 2, 2, 0, 2, 1, &one_, x.get())},
      {"no transposition", call(CUBLAS_OP_CONJG, 2, 2, 2, 2, 2, 2, &one_, x.get())},
      {"no alpha", call(n, 2, 2, 2, 2, 2, 2, nullptr, x.get())},
      {"no C", call(n, 2, 2, 2, 2, 2, 2, &one_, nullptr)},
  };
  for (const Case& c : cases) EXPECT_EQ(c.status, CUBLAS_STATUS_INVALID_VALUE) << c.what;
  EXPECT_EQ(cublasSgemm(nullptr, n, n, 1, 1, 1, &one_, x.get(), 1, x.get(), 1, &zero_, x.get(), 1),
            CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(call(n, 0, 2, 2, 1, 2, 1, &one_, nullptr), CUBLAS_STATUS_SUCCESS);  // nothing to do
}

TEST_F(GemmTest, WhatIsUndefinedIsAMisuse) {
  const OnDevice<float> x(64), y(64);
  std::vector<float> host(64);
  const auto product = [&](const float* alpha, const float* a, float* c, int stride_c, int batches) {
    return cublasSgemmStridedBatched(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, alpha, a, 4, 0, x.get(), 4, 0, &zero_,
                                     c, 4, stride_c, batches);
  };
  struct Case {
    std::function<cublasStatus_t()> call;
    const char* misuse;
  };
  const Case cases[] = {
      {[&] { return product(&one_, host.data(), y.get(), 16, 1); }, "matrix A of a product is host memory"},
      {[&] { return product(&one_, x.get(), y.get(), 16, 5); }, "matrix C of a product ends 64 bytes past"},
      {[&] { return product(&one_, x.get() + 49, y.get(), 16, 1); }, "matrix A of a product ends 4 bytes past"},
      {[&] { return product(&one_, x.get(), y.get(), 15, 2); }, "overlap"},
      {[&] { return product(&one_, x.get(), y.get(), 0, 2); }, "overlap"},
      {[&] { return product(y.get(), x.get(), y.get(), 16, 1); }, "alpha or beta of a product is device memory"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(c.call(), CUBLAS_STATUS_EXECUTION_FAILED) << c.misuse;
    ExpectMisuse(c.misuse);
  }
}

// Matrices may lie between each other's columns.
TEST_F(GemmTest, InterleavedBatchesDoNotOverlap) {
  const OnDevice<float> x(std::vector<float>(4, 1.0f)), y(16);
  EXPECT_EQ(cublasSgemmStridedBatched(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one_, x.get(), 2, 0, x.get(), 2, 0,
                                      &zero_, y.get(), 4, 2, 2),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(std::vector<float>(8, 2.0f), testing::ElementsAreArray(y.Values().data(), 8));
}

TEST_F(GemmTest, PointerArraysLieOnTheDeviceAndPointThere) {
  const OnDevice<float> x(4);
  float* const host_array[] = {x.get()};
  EXPECT_EQ(cublasSgemmBatched(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one_, host_array, 2, host_array, 2, &zero_,
                               host_array, 2, 1),
            CUBLAS_STATUS_EXECUTION_FAILED);
  ExpectMisuse("the pointer array of matrix A of a product is host memory");
}

TEST_F(GemmTest, BadPointersInAnArrayBreakTheContext) {
  float host[4];
  OnDevice<float> x(4);
  OnDevice<float*> good({x.get(), x.get()}), bad({x.get(), host});
  const auto product = [&](float* const* a, float* const* c) {
    return cublasSgemmBatched(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one_, a, 2, good.get(), 2, &zero_, c, 2, 2);
  };
  EXPECT_EQ(product(bad.get(), good.get()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  ExpectMisuse("matrix A of a batched product is host memory");
  EXPECT_EQ(product(good.get(), good.get()), CUBLAS_STATUS_EXECUTION_FAILED);
  Reset({.record_misuses = true});
  EXPECT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS);
  for (auto* array : {&good, &bad}) array->release();
  x.release();
}

TEST_F(GemmTest, OverlappingPointersBreakTheContext) {
  OnDevice<float> x(8);
  OnDevice<float*> pointers({x.get(), x.get() + 3});
  EXPECT_EQ(cublasSgemmBatched(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one_, pointers.get(), 2, pointers.get(), 2,
                               &zero_, pointers.get(), 2, 2),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  ExpectMisuse("matrices C of a batched product overlap");
  Reset({.record_misuses = true});
  EXPECT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS);
  x.release();
  pointers.release();
}

TEST_F(GemmTest, ScalarsOnTheDeviceAreReadWhenTheProductRuns) {
  const OnDevice<float> a(std::vector<float>{3.0f}), c(1), scalars(std::vector<float>{2.0f, 0.0f});
  ASSERT_EQ(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, scalars.get(), a.get(), 1, a.get(), 1,
                        scalars.get() + 1, c.get(), 1),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(c.Values(), std::vector<float>{18.0f});
  EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one_, a.get(), 1, a.get(), 1, &zero_, c.get(), 1),
            CUBLAS_STATUS_EXECUTION_FAILED);
  ExpectMisuse("alpha or beta of a product is host memory");
}

TEST_F(GemmTest, WorkspaceIsAlignedDeviceMemory) {
  const OnDevice<char> memory(1024);
  EXPECT_EQ(cublasSetWorkspace(handle_, memory.get(), 1024), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSetWorkspace(handle_, memory.get() + 128, 512), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSetWorkspace(handle_, memory.get(), 1025), CUBLAS_STATUS_INVALID_VALUE);
  ExpectMisuse("cuBLAS' workspace ends 1 bytes past");
}

// As the engine does: a stream, a handle and memory for each thread, side by side.
TEST_F(GemmTest, ThreadsComputeSideBySide) {
  constexpr int kSide = 32, kRounds = 20;
  const std::vector<float> a = Random<float>(kSide * kSide, 8), b = Random<float>(kSide * kSide, 9);
  const Shape s = {CUBLAS_OP_N, CUBLAS_OP_T, kSide, kSide, kSide, kSide, kSide, kSide};
  const std::vector<float> expected = Expected(s, 1.0, a.data(), b.data(), 0.0, std::vector<float>(kSide * kSide));
  const auto work = [&] {
    cudaStream_t stream = nullptr;
    cublasHandle_t handle = nullptr;
    EXPECT_CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    EXPECT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasSetStream(handle, stream), CUBLAS_STATUS_SUCCESS);
    const OnDevice<float> da(kSide * kSide), db(kSide * kSide), dc(kSide * kSide);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<float> c(kSide * kSide);
      const size_t bytes = c.size() * sizeof(float);
      EXPECT_CUDA_OK(cudaMemcpyAsync(da.get(), a.data(), bytes, cudaMemcpyHostToDevice, stream));
      EXPECT_CUDA_OK(cudaMemcpyAsync(db.get(), b.data(), bytes, cudaMemcpyHostToDevice, stream));
      EXPECT_EQ(cublasSgemm(handle, s.op_a, s.op_b, s.m, s.n, s.k, &one_, da.get(), s.lda, db.get(), s.ldb, &zero_,
                            dc.get(), s.ldc),
                CUBLAS_STATUS_SUCCESS);
      EXPECT_CUDA_OK(cudaMemcpyAsync(c.data(), dc.get(), bytes, cudaMemcpyDeviceToHost, stream));
      EXPECT_CUDA_OK(cudaStreamSynchronize(stream));
      EXPECT_EQ(c, expected);
    }
    EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_CUDA_OK(cudaStreamDestroy(stream));
  };
  std::thread first(work), second(work);
  work();
  first.join();
  second.join();
}

TEST_F(GemmTest, HandlesEndOnce) {
  cublasHandle_t other = nullptr;
  ASSERT_EQ(cublasCreate(&other), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(Leaks(), testing::Contains("a cuBLAS handle"));
  EXPECT_EQ(cublasDestroy(other), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasDestroy(other), CUBLAS_STATUS_NOT_INITIALIZED);
  ExpectMisuse("a cuBLAS handle was destroyed");
}

}  // namespace
}  // namespace jacserve::cuda_sim
