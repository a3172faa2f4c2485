#pragma once
// What a lesson about a kernel needs besides the kernel: its counts on any machine, its time on a GPU.

#include <tenfold/lesson.h>
#include <tenfold/simt_device.h>

#include <functional>

struct CUstream_st;  // what cudaStream_t points to

namespace tenfold {

/// Runs `work`, which launches kernels on the device that it is given, under the microscope and notes for every source
/// line what one request of a warp costs: "transpose.cuh:29 global store", in sectors of 32 bytes or in wavefronts of
/// shared memory; besides, bytes moved over bytes asked for and the modelled time on an H100. Throws std::runtime_error
/// with one line when the kernel has a race or a fault.
simt::Report note_under_microscope(const Trial& trial, double flops, const std::function<void(simt::Device&)>& work);

/// Notes what `launch` reaches on this GPU: median seconds over launches on caches emptied before each, and the bytes per
/// second of the `bytes` that the operation needs at the least. Nothing on a CPU.
void note_time_on_gpu(const Trial& trial, double bytes, const std::function<void(CUstream_st*)>& launch);

}  // namespace tenfold
