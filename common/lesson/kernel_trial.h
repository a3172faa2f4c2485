#pragma once
// What a lesson about a kernel needs besides the kernel: its counts on any machine, its time on a GPU.

#include <tenfold/lesson.h>
#include <tenfold/simt_device.h>

#include <functional>

struct CUstream_st;  // what cudaStream_t points to

namespace tenfold {

/// What the microscope saw of `work`, which launches kernels on the device that it is given and says whether the result is
/// right. Throws std::runtime_error with one line when it is not, or when a kernel has a race or a fault: a variant that is
/// wrong comes out INVALID and without numbers.
simt::Report under_microscope(const std::function<bool(simt::Device&)>& work);

/// The buffer's memory as a float tensor, which must not outlive it. Without sizes it has one dimension.
torch::Tensor as_tensor(const simt::Buffer<float>& buffer, at::IntArrayRef sizes = {});

/// Notes for every source line what one request of a warp costs: "transpose.cuh:29 global store", in sectors of 32 bytes or in
/// wavefronts of shared memory; besides, bytes moved over bytes asked for and the modelled time on an H100.
void note_accesses(const Trial& trial, const simt::Report& report, double flops = 0);

/// Notes what `launch` reaches on this GPU: median seconds over launches on caches emptied before each, and the bytes per
/// second of the `bytes` that the operation needs at the least. `right` looks at the first launch's result; when it is wrong,
/// throws std::runtime_error with one line and notes nothing. Nothing happens on a CPU.
void note_time_on_gpu(const Trial& trial, double bytes, const std::function<void(CUstream_st*)>& launch,
                      const std::function<bool()>& right);

}  // namespace tenfold
