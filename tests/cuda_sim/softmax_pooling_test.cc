// cuDNN's softmax and average pooling against plain formulas, and the rules that their arguments are under.
#include <cmath>

#include "tests/cuda_sim/dnn_test.h"

namespace jacserve::cuda_sim {
namespace {

class SoftmaxTest : public DnnTest {};
class PoolingTest : public DnnTest {};

constexpr float kTolerance = 1e-6f;

testing::Matcher<std::vector<float>> Near(const std::vector<float>& expected) {
  return testing::Pointwise(testing::FloatNear(kTolerance), expected);
}

TEST_F(SoftmaxTest, ForwardNormalizesChannelsOrSamples) {
  const Tensor t({1, 2, 1, 2});
  const float e = std::exp(1.0f);
  const OnDevice<float> x({0, 1, 1, 1}), y(4);
  struct Case {
    cudnnSoftmaxMode_t mode;
    cudnnSoftmaxAlgorithm_t algorithm;
    std::vector<float> expected;
  };
  const float all = 1 + 3 * e;
  const Case cases[] = {
      {CUDNN_SOFTMAX_MODE_CHANNEL, CUDNN_SOFTMAX_ACCURATE, {1 / (1 + e), 0.5f, e / (1 + e), 0.5f}},
      {CUDNN_SOFTMAX_MODE_INSTANCE, CUDNN_SOFTMAX_FAST, {1 / all, e / all, e / all, e / all}},
      {CUDNN_SOFTMAX_MODE_CHANNEL,
       CUDNN_SOFTMAX_LOG,
       {-std::log(1 + e), -std::log(2.0f), 1 - std::log(1 + e), -std::log(2.0f)}},
  };
  for (const Case& c : cases) {
    EXPECT_DNN_OK(cudnnSoftmaxForward(handle_, c.algorithm, c.mode, &one_, t, x.get(), &zero_, t, y.get()));
    EXPECT_THAT(y.Values(), Near(c.expected));
  }
}

TEST_F(SoftmaxTest, BackwardIsTheFormula) {
  const Tensor t({1, 3, 1, 1});
  const std::vector<float> y = {0.2f, 0.3f, 0.5f}, dy = {1, 2, 4};
  const OnDevice<float> device_y(y), device_dy(dy), dx(3);
  const float sum = 0.2f + 0.6f + 2.0f;
  EXPECT_DNN_OK(cudnnSoftmaxBackward(handle_, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one_, t,
                                     device_y.get(), t, device_dy.get(), &zero_, t, dx.get()));
  EXPECT_THAT(dx.Values(), Near({0.2f * (1 - sum), 0.3f * (2 - sum), 0.5f * (4 - sum)}));
  EXPECT_DNN_OK(cudnnSoftmaxBackward(handle_, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &one_, t, device_y.get(),
                                     t, device_dy.get(), &zero_, t, dx.get()));
  EXPECT_THAT(dx.Values(), Near({1 - 7 * std::exp(0.2f), 2 - 7 * std::exp(0.3f), 4 - 7 * std::exp(0.5f)}));
}

TEST_F(SoftmaxTest, RefusesWhatDoesNotAgree) {
  const Tensor t({1, 3, 1, 2}), other({1, 2, 1, 3}), strided({1, 3, 1, 2}, {6, 1, 6, 3}), flat({1, 3, 2});
  const OnDevice<float> x(6), y(6);
  const auto forward = [&](cudnnTensorDescriptor_t from, cudnnTensorDescriptor_t to, float* out) {
    return cudnnSoftmaxForward(handle_, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one_, from, x.get(),
                               &zero_, to, out);
  };
  EXPECT_EQ(forward(t, strided, y.get()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(forward(t, other, y.get()), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  EXPECT_EQ(forward(flat, flat, y.get()), CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
  EXPECT_EQ(forward(t, t, x.get()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(forward(t, strided, x.get()), CUDNN_STATUS_EXECUTION_FAILED);
  ExpectMisuse("a softmax in place has other strides");
  EXPECT_EQ(cudnnSoftmaxBackward(handle_, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one_, t, y.get(),
                                 strided, x.get(), &zero_, t, x.get()),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
}

class Pool {
 public:
  Pool(cudnnPoolingMode_t mode, int window, int pad, int stride) {
    EXPECT_DNN_OK(cudnnCreatePoolingDescriptor(&get_));
    EXPECT_DNN_OK(cudnnSetPooling2dDescriptor(get_, mode, CUDNN_PROPAGATE_NAN, 1, window, 0, pad, 1, stride));
  }
  ~Pool() { EXPECT_DNN_OK(cudnnDestroyPoolingDescriptor(get_)); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  operator cudnnPoolingDescriptor_t() const { return get_; }

 private:
  cudnnPoolingDescriptor_t get_ = nullptr;
};

constexpr auto kInclude = CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
constexpr auto kExclude = CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;

// Windows of three over [1, 2, 4, 8] with a pad of one at both sides.
TEST_F(PoolingTest, AveragesCountPaddingOrNot) {
  const Tensor t({1, 1, 1, 4});
  const OnDevice<float> x({1, 2, 4, 8}), y(4);
  const auto forward = [&](cudnnPoolingMode_t mode) {
    const Pool pool(mode, 3, 1, 1);
    EXPECT_DNN_OK(cudnnPoolingForward(handle_, pool, &one_, t, x.get(), &zero_, t, y.get()));
    return y.Values();
  };
  EXPECT_THAT(forward(kInclude), Near({1.0f, 7 / 3.0f, 14 / 3.0f, 4.0f}));
  EXPECT_THAT(forward(kExclude), Near({1.5f, 7 / 3.0f, 14 / 3.0f, 6.0f}));
}

TEST_F(PoolingTest, BackwardSpreadsTheCotangent) {
  const Tensor t({1, 1, 1, 4});
  const OnDevice<float> x({1, 2, 4, 8}), y(4), dy({3, 6, 12, 24}), dx(4);
  const auto backward = [&](cudnnPoolingMode_t mode) {
    const Pool pool(mode, 3, 1, 1);
    EXPECT_DNN_OK(cudnnPoolingBackward(handle_, pool, &one_, t, y.get(), t, dy.get(), t, x.get(), &zero_, t, dx.get()));
    return dx.Values();
  };
  EXPECT_THAT(backward(kInclude), Near({3, 7, 14, 12}));
  EXPECT_THAT(backward(kExclude), Near({3.5f, 7.5f, 18, 16}));
}

TEST_F(PoolingTest, RefusesWhatDoesNotAgree) {
  const Tensor t({1, 1, 1, 4}), small({1, 1, 1, 3}), strided({1, 1, 1, 4}, {8, 8, 8, 2});
  const Pool pool(kInclude, 3, 1, 1);
  const OnDevice<float> x(8), y(8);
  EXPECT_EQ(cudnnPoolingForward(handle_, pool, &one_, t, x.get(), &zero_, small, y.get()),
            CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  EXPECT_EQ(cudnnPoolingBackward(handle_, pool, &one_, strided, y.get(), t, y.get(), t, x.get(), &zero_, t, x.get()),
            CUDNN_STATUS_BAD_PARAM);
  const auto set = [&](cudnnPoolingMode_t mode, int window, int pad, int stride) {
    return cudnnSetPooling2dDescriptor(pool, mode, CUDNN_PROPAGATE_NAN, 1, window, 0, pad, 1, stride);
  };
  EXPECT_EQ(set(kInclude, 3, 3, 1), CUDNN_STATUS_BAD_PARAM);  // windows of padding alone
  EXPECT_EQ(set(kInclude, 0, 0, 1), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_POOLING_MAX, 3, 1, 1), CUDNN_STATUS_NOT_SUPPORTED);
}

}  // namespace
}  // namespace jacserve::cuda_sim
