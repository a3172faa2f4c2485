// A user's own program: an operator of LibTorch, and a kernel on a GPU and under the microscope.
#include <cuda_runtime_api.h>
#include <tenfold/kernels/softmax_torch.h>
#include <tenfold/kernels/transpose.h>
#include <tenfold/microscope/device.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

namespace {

void require(bool right, const char* what) {
  if (right) return;
  std::printf("FAIL: %s\n", what);
  std::exit(1);
}

}  // namespace

int main() {
  const torch::Tensor input = torch::randn({4, 8});
  require(torch::allclose(tenfold::fused::softmax(input), torch::softmax(input, -1)),
          "softmax differs from LibTorch's");

  tenfold::simt::Device device;
  const auto from = device.buffer<float>("from", 6), to = device.buffer<float>("to", 6);
  for (int64_t i = 0; i < 6; ++i) from[i] = static_cast<float>(i);
  tenfold::kernels::transpose(&device, to.data(), from.data(), 2, 3);
  require(to[1] == 3 && device.report().clean(), "the transpose is wrong under the microscope");

  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0) {  // without one, that it links
    const torch::Tensor wide = torch::arange(6, torch::kCUDA).to(torch::kFloat), tall = torch::empty_like(wide);
    tenfold::kernels::transpose(cudaStream_t{}, tall.data_ptr<float>(), wide.data_ptr<float>(), 2, 3);
    cudaDeviceSynchronize();
    require(tall[1].item<float>() == 3, "the transpose is wrong on the GPU");
  }
  std::puts("ok: the installed kernels work");
}
