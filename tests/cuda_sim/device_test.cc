// Which devices there are: counted, described, chosen by CUDA_VISIBLE_DEVICES, absent, without a driver.
#include <cublas_v2.h>

#include <cstdlib>

#include "tests/cuda_sim/sim_test.h"

namespace jacserve::cuda_sim {
namespace {

// Sets variables for one test; null: unset.
class Environment {
 public:
  struct Variable {
    const char* name;
    const char* value;
  };
  Environment(std::initializer_list<Variable> variables) : variables_(variables) {
    for (const Variable& v : variables_) v.value != nullptr ? setenv(v.name, v.value, 1) : unsetenv(v.name);
  }
  ~Environment() {
    for (const Variable& v : variables_) unsetenv(v.name);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const std::vector<Variable> variables_;
};

class DeviceTest : public SimTest {};
using DeviceDeathTest = DeviceTest;

const Device kSmall = {.name = "Small", .uuid = "GPU-11111111-0000-0000-0000-00000000000a", .memory_bytes = 1 << 20};
const Device kLarge = {.name = "Large",
                       .uuid = "GPU-11112222-0000-0000-0000-00000000000b",
                       .memory_bytes = 1 << 21,
                       .compute_major = 9,
                       .compute_minor = 0};

std::string VisibleNames() {
  int count = -1;
  const cudaError_t error = cudaGetDeviceCount(&count);
  EXPECT_EQ(error, count == 0 ? cudaErrorNoDevice : cudaSuccess);
  cudaGetLastError();
  std::string names;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp prop;
    EXPECT_CUDA_OK(cudaGetDeviceProperties(&prop, i));
    names += prop.name[0];
  }
  return names;
}

TEST_F(DeviceTest, VisibleDevicesAreChosenAsCudaDoes) {
  struct Case {
    const char* order;
    const char* visible;
    const char* names;
  };
  const Case cases[] = {
      {"PCI_BUS_ID", nullptr, "SL"},
      {nullptr, nullptr, "LS"},  // the fastest first
      {"PCI_BUS_ID", "1", "L"},
      {"PCI_BUS_ID", "1,0", "LS"},
      {"PCI_BUS_ID", "", ""},
      {"PCI_BUS_ID", "-1", ""},
      {"PCI_BUS_ID", "0,7,1", "S"},  // what follows a wrong one is hidden
      {"PCI_BUS_ID", "1,1", "L"},
      {"PCI_BUS_ID", "GPU-11112222-0000-0000-0000-00000000000b", "L"},
      {"PCI_BUS_ID", "GPU-11112222", "L"},
      {"PCI_BUS_ID", "GPU-1111", ""},  // the beginning of both
      {"PCI_BUS_ID", "GPU-33333333", ""},
      {"PCI_BUS_ID", "1, GPU-11111111", "LS"},
  };
  for (const Case& c : cases) {
    const Environment environment{{"CUDA_DEVICE_ORDER", c.order}, {"CUDA_VISIBLE_DEVICES", c.visible}};
    Reset({.devices = {kSmall, kLarge}, .record_misuses = true});
    EXPECT_EQ(VisibleNames(), c.names) << (c.visible == nullptr ? "unset" : c.visible);
  }
}

TEST_F(DeviceTest, DevicesDescribeThemselves) {
  Reset({.devices = {kLarge, kSmall}, .record_misuses = true});
  cudaDeviceProp prop;
  ASSERT_CUDA_OK(cudaGetDeviceProperties(&prop, 1));
  EXPECT_STREQ(prop.name, "Small");
  EXPECT_EQ(prop.totalGlobalMem, 1u << 20);
  EXPECT_EQ(std::string(prop.uuid.bytes, 2), "\x11\x11");
  EXPECT_EQ(prop.uuid.bytes[15], 10);
  int major = 0;
  EXPECT_CUDA_OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  EXPECT_EQ(major, 9);
  EXPECT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  char bus[32];
  EXPECT_CUDA_OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 1));
  EXPECT_STREQ(bus, "0000:02:00.0");
}

TEST_F(DeviceTest, EachDeviceHasItsOwnMemory) {
  Reset({.devices = {kSmall, kSmall}, .record_misuses = true});
  const OnDevice<char> all(1 << 20);
  ASSERT_CUDA_OK(cudaSetDevice(1));
  {
    const OnDevice<char> too(1 << 20);
    cudaStream_t stream = nullptr;
    ASSERT_CUDA_OK(cudaStreamCreate(&stream));
    EXPECT_EQ(cudaMemsetAsync(all.get(), 0, 1, stream), cudaErrorInvalidValue);
    ExpectMisuse("is on device 0, not on 1");
    EXPECT_CUDA_OK(cudaStreamDestroy(stream));
  }
  ASSERT_CUDA_OK(cudaSetDevice(0));
}

TEST_F(DeviceTest, WithoutADriverEveryCallSaysSo) {
  Reset({.driver = false, .devices = {}});
  int count = -1, version = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 0);
  EXPECT_CUDA_OK(cudaDriverGetVersion(&version));
  EXPECT_EQ(version, 0);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorInsufficientDriver);
  cublasHandle_t handle = nullptr;
  EXPECT_EQ(cublasCreate(&handle), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_STREQ(cudaGetErrorName(cudaGetLastError()), "cudaErrorInsufficientDriver");
}

TEST_F(DeviceTest, TheEnvironmentDescribesTheMachine) {
  const Environment environment{
      {"JACSERVE_SIM_DEVICES", "3"},       {"JACSERVE_SIM_MEMORY", "8GiB,24GiB"},
      {"JACSERVE_SIM_OCCUPIED", "512MiB"}, {"JACSERVE_SIM_COMPUTE", "8.6"},
      {"JACSERVE_SIM_SEED", "7"},          {"JACSERVE_SIM_FAULT", "alloc=3,sticky=10,once=/tmp/x=y,slow_copy=5"}};
  const Options options = FromEnvironment();
  ASSERT_EQ(options.devices.size(), 3u);
  EXPECT_EQ(options.devices[0].memory_bytes, int64_t{8} << 30);
  EXPECT_EQ(options.devices[2].memory_bytes, int64_t{24} << 30);
  EXPECT_EQ(options.devices[1].occupied_bytes, int64_t{512} << 20);
  EXPECT_EQ(options.devices[2].compute_minor, 6);
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.faults.fail_allocation, 3);
  EXPECT_EQ(options.faults.sticky_at_launch, 10);
  EXPECT_EQ(options.faults.once, "/tmp/x=y");
  EXPECT_EQ(options.faults.copy_delay, std::chrono::microseconds(5));
  EXPECT_FALSE(options.record_misuses);
}

TEST_F(DeviceTest, TheEnvironmentCanTakeTheDriverAway) {
  const Environment environment{{"JACSERVE_SIM_DEVICES", "no-driver"}};
  EXPECT_FALSE(FromEnvironment().driver);
}

TEST_F(DeviceDeathTest, AnUnknownFaultIsRefused) {
  const Environment environment{{"JACSERVE_SIM_FAULT", "alloc=3,gravity"}};
  EXPECT_EXIT(FromEnvironment(), testing::ExitedWithCode(2), "\"gravity\" is not alloc=K");
}

}  // namespace
}  // namespace jacserve::cuda_sim
