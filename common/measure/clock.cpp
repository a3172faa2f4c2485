#include <tenfold/clock.h>

#include <chrono>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace tenfold {

double time_block(torch::Device device, const std::function<void()>& work) {
#ifdef TENFOLD_WITH_CUDA
  if (device.is_cuda()) {
    at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
    begin.record(c10::cuda::getCurrentCUDAStream(device.index()));
    work();
    end.record(c10::cuda::getCurrentCUDAStream(device.index()));
    end.synchronize();
    return begin.elapsed_time(end) / 1e3;
  }
#else
  (void)device;
#endif
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace tenfold
