#pragma once
// GPUs as a process sees them, and what to say when one fails.

#include <torch/torch.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tenfold {

/// The GPUs that this process may use, in CUDA's order, each by its UUID: no two devices share one, on whatever
/// machine.
std::vector<std::string> visible_gpus();

/// Why visible_gpus() is empty, in a sentence without a full stop, as CUDA says it: no driver, one that is too old.
std::string why_no_gpu();

/// Makes a GPU this thread's current device: what asks for "CUDA" without a number means it. Nothing to do on the CPU.
void use_device(torch::Device device);

/// Whether this CPU or GPU has instructions that multiply bfloat16: a GPU from compute capability 8.0 on. Others
/// compute it by way of 32 bits, a CPU ten times as slowly.
bool multiplies_bfloat16(torch::Device device);

/// A GPU that has failed for good: CUDA reports its error at every call from then on, so nothing more can run in this
/// process.
struct DeviceLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Whether the device still works after an error. One that a kernel has caused stays until the process ends.
bool still_works(torch::Device device);

/// What a line has room for of CUDA's messages, which go on with advice: the first sentences, without the last full
/// stop.
std::string short_message(const std::string& text, int sentences = 1);

}  // namespace tenfold
