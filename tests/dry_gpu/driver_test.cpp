// CUDA's driver for a card that is not there: virtual memory, as LibTorch's expandable segments use it, and modules.

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstring>

#include "common/dry_gpu/state.h"

namespace tenfold::dry {
namespace {

constexpr size_t kPage = size_t{2} << 20;

int64_t used() { return state().devices[0].used; }

TEST(VirtualMemory, AddressesComeFirstAndTheCardsMemoryLater) {
  const int64_t before = used();
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemAddressReserve(&address, 100 * kPage, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(used(), before) << "addresses are free";
  CUmemAllocationProp of{};
  of.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handles[2];
  const CUmemAccessDesc access{of.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(cuMemCreate(&handles[i], kPage, &of, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(address + i * kPage, kPage, 0, handles[i], 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemSetAccess(address + i * kPage, kPage, &access, 1), CUDA_SUCCESS);
  }
  EXPECT_EQ(used() - before, static_cast<int64_t>(2 * kPage));
  std::memset(reinterpret_cast<void*>(address + kPage), 1, 16);
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(address + kPage)), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  for (const auto handle : handles) EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(used() - before, static_cast<int64_t>(2 * kPage)) << "what is mapped keeps it";
  EXPECT_EQ(cuMemUnmap(address + kPage, kPage), CUDA_SUCCESS);
  EXPECT_EQ(used() - before, static_cast<int64_t>(kPage));
  EXPECT_EQ(cuMemUnmap(address, kPage), CUDA_SUCCESS);
  EXPECT_EQ(used(), before);
  EXPECT_EQ(cuMemAddressFree(address, 100 * kPage), CUDA_SUCCESS);
}

TEST(VirtualMemory, TheCardsLimitIsKept) {
  CUmemAllocationProp of{};
  of.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle;
  EXPECT_EQ(cuMemCreate(&handle, size_t{80} << 30, &of, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemCreate(&handle, 100, &of, 0), CUDA_ERROR_INVALID_VALUE) << "not a multiple of the granularity";
}

TEST(Modules, KernelsAreCountedByName) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, "machine code"), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&function, module, "triton_fused_add"), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchKernel(function, 4, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchKernel(function, 4, 1, 1, 2048, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(state().counts.kernels.at("triton_fused_add"), 1);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
}

TEST(Devices, AreTheRuntimesOwn) {
  char name[100];
  ASSERT_EQ(cuDeviceGetName(name, sizeof name, 0), CUDA_SUCCESS);
  EXPECT_STREQ(name, "NVIDIA H100 80GB HBM3");
  CUdevice device = -1;
  EXPECT_EQ(cuDeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
  int value = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 9);
}

}  // namespace
}  // namespace tenfold::dry
