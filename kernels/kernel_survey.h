#pragma once
// What a page about a kernel needs besides the kernel: its counts on any machine, its time on a GPU. A page says what
// is launched on which tensors, and when the result is right:
//
//   const auto copy = [](KernelMemory& memory, int64_t count) -> KernelRun {
//     const Tensor in = memory.normal("in", {count}), out = memory.result("out", {count});
//     return {.launch = [=](auto stream) { kernels::copy(stream, out.data_ptr<float>(), in.data_ptr<float>(), count);
//     },
//             .right = [=] { return torch::equal(out, in); },
//             .bytes = 8.0 * count};
//   };
//   note_accesses(trial, count_and_time(trial, copy, /*counted=*/8192, /*timed=*/1 << 25));

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "common/measure/kernel_time.h"
#include "common/measure/trial.h"
#include "common/microscope/device.h"

struct CUstream_st;  // what cudaStream_t points to

namespace tenfold {

/// What the microscope saw of `work`, which launches kernels on the device that it is given and says whether the result
/// is right. Throws std::runtime_error with one line when it is not, or when a kernel has a race or a fault: a look
/// that is wrong comes out INVALID and without numbers.
simt::Report under_microscope(const std::function<bool(simt::Device&)>& work);

/// The buffer's memory as a float tensor, which must not outlive it. Without sizes it has one dimension.
torch::Tensor as_tensor(const simt::Buffer<float>& buffer, at::IntArrayRef sizes = {});

/// Where the tensors of a kernel are: under the microscope or on a GPU. It must outlive them.
class KernelMemory {
 public:
  explicit KernelMemory(simt::Device& microscope) : microscope_(&microscope) {}
  explicit KernelMemory(torch::Device gpu) : gpu_(gpu) {}

  /// The values, as float32.
  torch::Tensor copy_of(const std::string& name, const torch::Tensor& values);
  /// Random normal values: zeros draw less power and run faster than any real data.
  torch::Tensor normal(const std::string& name, at::IntArrayRef sizes);
  /// For the kernel to write: NaN until then.
  torch::Tensor result(const std::string& name, at::IntArrayRef sizes);
  /// NaN in all results: what nobody writes must not look right because it was right before.
  void spoil_results();
  /// One T of zero bytes.
  template <class T>
  T* zeroed(const std::string& name) {
    static_assert(sizeof(T) % sizeof(float) == 0);
    return reinterpret_cast<T*>(
        floats(name, {static_cast<int64_t>(sizeof(T) / sizeof(float))}).zero_().data_ptr<float>());
  }

 private:
  torch::Tensor floats(const std::string& name, at::IntArrayRef sizes);

  simt::Device* microscope_ = nullptr;
  torch::Device gpu_ = torch::kCPU;
  std::vector<simt::Buffer<float>> buffers_;
  std::vector<torch::Tensor> tensors_, results_;
};

/// A launch on either kind of stream, from a lambda that takes both: [=](auto stream) { ... }.
struct KernelLaunch {
  template <class Launch>
  // NOLINTNEXTLINE(google-explicit-constructor,performance-unnecessary-value-param): both keep a copy
  KernelLaunch(Launch launch) : under_microscope(launch), on_gpu(launch) {}
  std::function<void(simt::Device*)> under_microscope;
  std::function<void(CUstream_st*)> on_gpu;
};

/// A kernel on its tensors.
struct KernelRun {
  KernelLaunch launch;
  std::function<bool()> right;         ///< whether the last launch's results are
  double bytes = 0;                    ///< of global memory that the operation needs at the least; 0: not stated
  double flops = 0;                    ///< arithmetic that the operation needs by its formula; 0: not stated
  std::vector<Contender> rivals = {};  ///< what others offer for the operation
};

using MakeKernel = std::function<KernelRun(KernelMemory&)>;

/// Launches the kernel once under the microscope; throws as under_microscope() does.
simt::Report count_kernel(const MakeKernel& make);

/// On a GPU, notes what the kernel and its rivals reach there, on cold caches and launched in turn: median seconds, and
/// bytes or arithmetic per second. Throws std::runtime_error with one line for a wrong result of one of them, and notes
/// nothing. On a CPU nothing happens, and `make` is not called.
void note_time(const Trial& trial, const MakeKernel& make);

/// Both, with make(memory, sizes) on small sizes to count and on large ones to time.
template <class Make, class Sizes>
simt::Report count_and_time(const Trial& trial, const Make& make, const Sizes& counted, const Sizes& timed) {
  simt::Report report = count_kernel([&](KernelMemory& memory) { return make(memory, counted); });
  note_time(trial, [&](KernelMemory& memory) { return make(memory, timed); });
  return report;
}

/// Notes for every source line what one request of a warp costs: "transpose.cuh:29 global store", in sectors of 32
/// bytes or in wavefronts of shared memory; besides, bytes moved over bytes asked for.
void note_accesses(const Trial& trial, const simt::Report& report);

}  // namespace tenfold
