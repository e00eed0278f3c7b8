// cuDNN's convolutions against plain loops, and every rule that their arguments are under.
#include <functional>
#include <tuple>
#include <utility>

#include "tests/cuda_sim/dnn_test.h"

namespace jacserve::cuda_sim {
namespace {

class ConvolutionTest : public DnnTest {};

// Two spatial axes. Sizes: x [n, groups * i, h, w], w [groups * o, i, kh, kw].
struct Case {
  const char* name;
  int n = 1, groups = 1, i = 1, o = 1, h = 1, w = 1, kh = 1, kw = 1;
  int pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;

  int OutH() const { return (h + 2 * pad_h - (kh - 1) * dilation_h - 1) / stride_h + 1; }
  int OutW() const { return (w + 2 * pad_w - (kw - 1) * dilation_w - 1) / stride_w + 1; }
  std::vector<int> X() const { return {n, groups * i, h, w}; }
  std::vector<int> Y() const { return {n, groups * o, OutH(), OutW()}; }
  std::vector<int> W() const { return {groups * o, i, kh, kw}; }
};

const Case kCases[] = {
    {.name = "one number"},
    {.name = "plain", .n = 2, .i = 3, .o = 4, .h = 6, .w = 5, .kh = 3, .kw = 2},
    {.name = "padded", .n = 1, .i = 2, .o = 3, .h = 5, .w = 4, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 2},
    {.name = "strided", .n = 2, .i = 2, .o = 2, .h = 9, .w = 8, .kh = 4, .kw = 3, .stride_h = 2, .stride_w = 3},
    {.name = "dilated", .i = 1, .o = 2, .h = 7, .w = 9, .kh = 3, .kw = 2, .pad_w = 1, .dilation_h = 2, .dilation_w = 3},
    {.name = "grouped", .n = 2, .groups = 3, .i = 2, .o = 2, .h = 4, .w = 4, .kh = 2, .kw = 2, .pad_h = 1},
};

int Volume(const std::vector<int>& dims) {
  int volume = 1;
  for (const int dim : dims) volume *= dim;
  return volume;
}

// f(place in x, in w, in y) for each product of the convolution.
void ForEachProduct(const Case& c, const std::function<void(int, int, int)>& f) {
  for (int n = 0; n < c.n; ++n)
    for (int g = 0; g < c.groups; ++g)
      for (int o = 0; o < c.o; ++o)
        for (int i = 0; i < c.i; ++i)
          for (int yh = 0; yh < c.OutH(); ++yh)
            for (int yw = 0; yw < c.OutW(); ++yw)
              for (int kh = 0; kh < c.kh; ++kh)
                for (int kw = 0; kw < c.kw; ++kw) {
                  const int h = yh * c.stride_h - c.pad_h + kh * c.dilation_h;
                  const int w = yw * c.stride_w - c.pad_w + kw * c.dilation_w;
                  if (h < 0 || h >= c.h || w < 0 || w >= c.w) continue;
                  f(((n * c.groups * c.i + g * c.i + i) * c.h + h) * c.w + w,
                    (((g * c.o + o) * c.i + i) * c.kh + kh) * c.kw + kw,
                    ((n * c.groups * c.o + g * c.o + o) * c.OutH() + yh) * c.OutW() + yw);
                }
}

class Descriptors {
 public:
  explicit Descriptors(const Case& c, cudnnDataType_t type = CUDNN_DATA_FLOAT) : x(c.X(), type), y(c.Y(), type) {
    EXPECT_DNN_OK(cudnnCreateFilterDescriptor(&w));
    EXPECT_DNN_OK(cudnnCreateConvolutionDescriptor(&conv));
    EXPECT_DNN_OK(cudnnSetFilterNdDescriptor(w, type, CUDNN_TENSOR_NCHW, 4, c.W().data()));
    EXPECT_DNN_OK(cudnnSetConvolution2dDescriptor(conv, c.pad_h, c.pad_w, c.stride_h, c.stride_w, c.dilation_h,
                                                  c.dilation_w, CUDNN_CROSS_CORRELATION, type));
    EXPECT_DNN_OK(cudnnSetConvolutionGroupCount(conv, c.groups));
    EXPECT_DNN_OK(cudnnSetConvolutionMathType(conv, CUDNN_FMA_MATH));
  }
  ~Descriptors() {
    EXPECT_DNN_OK(cudnnDestroyFilterDescriptor(w));
    EXPECT_DNN_OK(cudnnDestroyConvolutionDescriptor(conv));
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  Tensor x, y;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
};

constexpr auto kData1 = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
constexpr auto kGemm = CUDNN_CONVOLUTION_FWD_ALGO_GEMM;

template <class T>
void ExpectForward(cudnnHandle_t handle, const Case& c, cudnnDataType_t type, double beta) {
  const Descriptors d(c, type);
  const std::vector<T> x = SmallNumbers<T>(Volume(c.X()), 1), w = SmallNumbers<T>(Volume(c.W()), 2);
  std::vector<T> y = SmallNumbers<T>(Volume(c.Y()), 3);
  const OnDevice<T> dx(x), dw(w), dy(y);
  size_t bytes = 0;
  ASSERT_EQ(cudnnGetConvolutionForwardWorkspaceSize(handle, d.x, d.w, d.conv, d.y, kGemm, &bytes),
            CUDNN_STATUS_SUCCESS);
  const OnDevice<char> workspace(static_cast<int64_t>(bytes));
  const T alpha_value = 2, beta_value = static_cast<T>(beta);
  EXPECT_DNN_OK(cudnnConvolutionForward(handle, &alpha_value, d.x, dx.get(), d.w, dw.get(), d.conv, kGemm,
                                        workspace.get(), bytes, &beta_value, d.y, dy.get()));
  for (T& value : y) value *= static_cast<T>(beta);
  ForEachProduct(c, [&](int in, int filter, int out) { y[out] += 2 * x[in] * w[filter]; });
  EXPECT_EQ(dy.Values(), y) << c.name;
}

TEST_F(ConvolutionTest, ForwardAgreesWithPlainLoops) {
  for (const Case& c : kCases) {
    ExpectForward<float>(handle_, c, CUDNN_DATA_FLOAT, 0.0);
    ExpectForward<float>(handle_, c, CUDNN_DATA_FLOAT, 1.0);
    ExpectForward<double>(handle_, c, CUDNN_DATA_DOUBLE, 0.0);
  }
}

template <class T>
void ExpectBackwardData(cudnnHandle_t handle, const Case& c, cudnnDataType_t type) {
  const Descriptors d(c, type);
  const std::vector<T> y = SmallNumbers<T>(Volume(c.Y()), 1), w = SmallNumbers<T>(Volume(c.W()), 2);
  const OnDevice<T> dx(Volume(c.X())), dw(w), dy(y);
  size_t bytes = 0;
  ASSERT_EQ(cudnnGetConvolutionBackwardDataWorkspaceSize(handle, d.w, d.y, d.conv, d.x, kData1, &bytes),
            CUDNN_STATUS_SUCCESS);
  const OnDevice<char> workspace(static_cast<int64_t>(bytes));
  const T one = 1, zero = 0;
  EXPECT_DNN_OK(cudnnConvolutionBackwardData(handle, &one, d.w, dw.get(), d.y, dy.get(), d.conv, kData1,
                                             workspace.get(), bytes, &zero, d.x, dx.get()));
  std::vector<T> x(Volume(c.X()), T{0});
  ForEachProduct(c, [&](int in, int filter, int out) { x[in] += y[out] * w[filter]; });
  EXPECT_EQ(dx.Values(), x) << c.name;
}

TEST_F(ConvolutionTest, BackwardDataAgreesWithPlainLoops) {
  for (const Case& c : kCases) {
    ExpectBackwardData<float>(handle_, c, CUDNN_DATA_FLOAT);
    ExpectBackwardData<double>(handle_, c, CUDNN_DATA_DOUBLE);
  }
  EXPECT_EQ(Read().nondeterministic_launches, 0);
  EXPECT_EQ(Read().tf32_products, 0);
}

// Three axes, the last two of size 1 in the kernel: a moving sum along the first.
TEST_F(ConvolutionTest, ThreeSpatialAxes) {
  const Tensor x({1, 1, 3, 1, 2}), y({1, 1, 2, 1, 2});
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
  const int kernel[] = {1, 1, 2, 1, 1}, zeros[] = {0, 0, 0}, ones[] = {1, 1, 1};
  EXPECT_DNN_OK(cudnnCreateFilterDescriptor(&w));
  EXPECT_DNN_OK(cudnnSetFilterNdDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 5, kernel));
  EXPECT_DNN_OK(cudnnCreateConvolutionDescriptor(&conv));
  EXPECT_DNN_OK(cudnnSetConvolutionNdDescriptor(conv, 3, zeros, ones, ones, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  const OnDevice<float> dx({1, 2, 3, 4, 5, 6}), dw({1, 10}), dy(4);
  EXPECT_DNN_OK(cudnnConvolutionForward(handle_, &one_, x, dx.get(), w, dw.get(), conv,
                                        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero_, y, dy.get()));
  EXPECT_THAT(dy.Values(), testing::ElementsAre(31, 42, 53, 64));
  EXPECT_DNN_OK(cudnnDestroyFilterDescriptor(w));
  EXPECT_DNN_OK(cudnnDestroyConvolutionDescriptor(conv));
}

TEST_F(ConvolutionTest, TheOtherModeTurnsTheKernelAround) {
  const Case c = {.name = "turned", .w = 3, .kw = 2};
  const Descriptors d(c);
  EXPECT_DNN_OK(cudnnSetConvolution2dDescriptor(d.conv, 0, 0, 1, 1, 1, 1, CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT));
  const OnDevice<float> x({1, 2, 3}), w({1, 10}), y(2);
  EXPECT_DNN_OK(cudnnConvolutionForward(handle_, &one_, d.x, x.get(), d.w, w.get(), d.conv,
                                        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero_, d.y, y.get()));
  EXPECT_THAT(y.Values(), testing::ElementsAre(12, 23));
}

// 1 + 2^-12 is a float32 number and no TF32 number: cuDNN keeps it only when told so.
TEST_F(ConvolutionTest, OnlyFmaMathKeepsFloat32) {
  const Descriptors d(Case{.name = "one number"});
  const float factor = 1.0f + 0x1p-12f;
  const OnDevice<float> x(std::vector<float>{factor}), w(std::vector<float>{1.0f}), y(1);
  for (const auto& [math, expected] : {std::pair(CUDNN_FMA_MATH, factor), {CUDNN_DEFAULT_MATH, 1.0f}}) {
    EXPECT_DNN_OK(cudnnSetConvolutionMathType(d.conv, math));
    EXPECT_DNN_OK(cudnnConvolutionForward(handle_, &one_, d.x, x.get(), d.w, w.get(), d.conv,
                                          CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero_, d.y, y.get()));
    EXPECT_THAT(y.Values(), testing::ElementsAre(expected));
  }
  EXPECT_EQ(Read().tf32_products, 1);
}

TEST_F(ConvolutionTest, ProposalsSayWhichAlgorithmsVary) {
  const Descriptors d(kCases[1]);
  cudnnConvolutionBwdDataAlgoPerf_t perf[CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT];
  int returned = 0;
  EXPECT_DNN_OK(
      cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, d.w, d.y, d.conv, d.x, std::size(perf), &returned, perf));
  ASSERT_GE(returned, 2);
  EXPECT_EQ(perf[0].determinism, CUDNN_NON_DETERMINISTIC);  // who takes the first one blindly is counted
  EXPECT_EQ(perf[1].algo, kData1);
  EXPECT_EQ(perf[1].determinism, CUDNN_DETERMINISTIC);
  EXPECT_GT(perf[1].memory, 0u);
  EXPECT_EQ(perf[returned - 1].status, CUDNN_STATUS_NOT_SUPPORTED);
}

// Each case changes one thing of a call that is right.
TEST_F(ConvolutionTest, RefusesWhatItDocuments) {
  const Case c = {.name = "right", .n = 2, .groups = 2, .i = 2, .o = 3, .h = 5, .w = 5, .kh = 3, .kw = 3};
  const Descriptors d(c);
  const OnDevice<float> x(Volume(c.X())), w(Volume(c.W())), y(Volume(c.Y()));
  size_t bytes = 0;
  EXPECT_DNN_OK(cudnnGetConvolutionBackwardDataWorkspaceSize(handle_, d.w, d.y, d.conv, d.x, kData1, &bytes));
  const OnDevice<char> workspace(static_cast<int64_t>(bytes));
  const auto call = [&](cudnnTensorDescriptor_t y_desc, cudnnTensorDescriptor_t x_desc, size_t size,
                        cudnnConvolutionBwdDataAlgo_t algorithm, const float* alpha) {
    return cudnnConvolutionBackwardData(handle_, alpha, d.w, w.get(), y_desc, y.get(), d.conv, algorithm,
                                        workspace.get(), size, &zero_, x_desc, x.get());
  };
  const Tensor small_y({2, 6, 2, 3}), other_n({1, 6, 3, 3}), other_channels({2, 3, 5, 5});
  const Tensor half({2, 6, 3, 3}, CUDNN_DATA_HALF), flat({2, 6, 9});
  const Tensor loose({2, 6, 3, 3}, {72, 12, 3, 1}), far({2, 6, 3, 3}, {60, 9, 3, 1});
  const Tensor folded({2, 4, 5, 5}, {100, 25, 4, 1});
  EXPECT_EQ(call(d.y, d.x, bytes, kData1, &one_), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(call(small_y, d.x, bytes, kData1, &one_), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  EXPECT_EQ(call(other_n, d.x, bytes, kData1, &one_), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  EXPECT_EQ(call(d.y, other_channels, bytes, kData1, &one_), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  EXPECT_EQ(call(flat, d.x, bytes, kData1, &one_), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  EXPECT_EQ(call(half, d.x, bytes, kData1, &one_), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  EXPECT_EQ(call(loose, d.x, bytes, kData1, &one_), CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  EXPECT_EQ(call(d.y, folded, bytes, kData1, &one_), CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  EXPECT_EQ(call(d.y, d.x, bytes - 1, kData1, &one_), CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
  EXPECT_EQ(call(d.y, d.x, bytes, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, &one_), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(call(d.y, d.x, bytes, kData1, nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(call(nullptr, d.x, bytes, kData1, &one_), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(call(far, d.x, bytes, kData1, &one_), CUDNN_STATUS_EXECUTION_FAILED);  // samples may lie apart
  ExpectMisuse("the input of a convolution ends");

  char text[200] = "";
  EXPECT_EQ(call(d.y, d.x, bytes - 1, kData1, &one_), CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
  cudnnGetLastErrorString(text, sizeof text);
  EXPECT_THAT(text, testing::HasSubstr("workspace"));
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
}

TEST_F(ConvolutionTest, WhatIsUndefinedIsAMisuse) {
  const Case c = {.name = "small", .h = 2, .w = 2};
  const Descriptors d(c);
  const OnDevice<float> x(4), w(1), y(4);
  float host[4] = {};
  const auto call = [&](const float* alpha, const float* in, const float* filter, float* out) {
    return cudnnConvolutionForward(handle_, alpha, d.x, in, d.w, filter, d.conv,
                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero_, d.y, out);
  };
  for (const auto& [arguments, misuse] :
       {std::pair(std::tuple(&one_, static_cast<const float*>(host), static_cast<const float*>(w.get()), y.get()),
                  "the input of a convolution is host memory"),
        {std::tuple(&one_, x.get(), host, y.get()), "the filter of a convolution is host memory"},
        {std::tuple(&one_, x.get(), w.get(), y.get() + 1), "the output of a convolution ends 4 bytes past"},
        {std::tuple(static_cast<const float*>(x.get()), x.get(), w.get(), y.get()), "alpha is device memory"}}) {
    EXPECT_EQ(std::apply(call, arguments), CUDNN_STATUS_EXECUTION_FAILED) << misuse;
    ExpectMisuse(misuse);
  }
}

TEST_F(ConvolutionTest, DescriptorsAreCheckedWhenSet) {
  const Descriptors d(kCases[1]);
  const auto set = [&](int pad, int stride, int dilation) {
    return cudnnSetConvolution2dDescriptor(d.conv, pad, 0, stride, 1, dilation, 1, CUDNN_CROSS_CORRELATION,
                                           CUDNN_DATA_FLOAT);
  };
  EXPECT_EQ(set(-1, 1, 1), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(0, 0, 1), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(0, 1, 0), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnSetConvolutionGroupCount(d.conv, 0), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnSetTensor4dDescriptor(d.x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 0, 1, 1, 1), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnSetTensor4dDescriptor(d.x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1 << 16, 1 << 16, 1, 1),
            CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
  const int two[] = {1, 1};
  EXPECT_EQ(cudnnSetTensorNdDescriptor(d.x, CUDNN_DATA_FLOAT, 2, two, two), CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_F(ConvolutionTest, DescriptorsEndOnceAndAreNamedWhenLeaked) {
  cudnnTensorDescriptor_t tensor = nullptr;
  EXPECT_DNN_OK(cudnnCreateTensorDescriptor(&tensor));
  EXPECT_THAT(Leaks(), testing::Contains("a cuDNN tensor descriptor"));
  EXPECT_DNN_OK(cudnnDestroyTensorDescriptor(tensor));
  EXPECT_EQ(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1),
            CUDNN_STATUS_BAD_PARAM);
  ExpectMisuse("a cuDNN descriptor was used that never was");
}

}  // namespace
}  // namespace jacserve::cuda_sim
