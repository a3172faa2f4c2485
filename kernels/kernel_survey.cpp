#include "kernels/kernel_survey.h"

#include <cmath>
#include <map>
#include <stdexcept>

#include "common/result/statistics.h"

#ifdef TENFOLD_WITH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

namespace tenfold {

using torch::Tensor;

simt::Report under_microscope(const std::function<bool(simt::Device&)>& work) {
  simt::Device device;
  const bool right = work(device);
  const simt::Report report = device.report();
  for (const simt::Fault& fault : report.faults)
    throw std::runtime_error(simt::text_of(fault.where) + ": " + fault.text);
  for (const simt::Race& race : report.races) {
    throw std::runtime_error("race between " + simt::text_of(race.first) + " and " + simt::text_of(race.second));
  }
  if (!right) throw std::runtime_error("the kernel's result is wrong under the microscope");
  return report;
}

Tensor as_tensor(const simt::Buffer<float>& buffer, at::IntArrayRef sizes) {
  return torch::from_blob(buffer.data(), sizes.empty() ? at::IntArrayRef(buffer.size()) : sizes);
}

Tensor KernelMemory::floats(const std::string& name, at::IntArrayRef sizes) {
  if (microscope_ == nullptr) {
    tensors_.push_back(torch::empty(sizes, torch::dtype(torch::kFloat).device(gpu_)));
    return tensors_.back();
  }
  buffers_.push_back(microscope_->buffer<float>(name, c10::multiply_integers(sizes)));
  return as_tensor(buffers_.back(), sizes);
}

Tensor KernelMemory::copy_of(const std::string& name, const Tensor& values) {
  return floats(name, values.sizes()).copy_(values);
}

Tensor KernelMemory::normal(const std::string& name, at::IntArrayRef sizes) { return floats(name, sizes).normal_(); }

Tensor KernelMemory::result(const std::string& name, at::IntArrayRef sizes) {
  results_.push_back(floats(name, sizes).fill_(NAN));
  return results_.back();
}

void KernelMemory::spoil_results() {
  for (Tensor& result : results_) result.fill_(NAN);
}

simt::Report count_kernel(const MakeKernel& make) {
  return under_microscope([&](simt::Device& device) {
    KernelMemory memory(device);
    const KernelRun run = make(memory);
    run.launch.under_microscope(&device);
    return run.right();
  });
}

void note_time(const Trial& trial, const MakeKernel& make) {
#ifdef TENFOLD_WITH_CUDA
  if (!trial.device.is_cuda()) return;
  KernelMemory memory(trial.device);
  const KernelRun run = make(memory);
  const auto launch = [&] { run.launch.on_gpu(c10::cuda::getCurrentCUDAStream().stream()); };
  const auto complaint = [&]() -> std::string {
    memory.spoil_results();
    launch();
    return run.right() ? "" : "its result is wrong on this GPU";
  };
  std::vector<Contender> contenders{{"the kernel", launch, complaint}};
  contenders.insert(contenders.end(), run.rivals.begin(), run.rivals.end());
  const auto seconds = seconds_in_turn(trial.device, contenders, trial.seed);

  const double middle = median(seconds[0]);
  trial.note("measured, cold caches", middle, "s");
  if (run.bytes > 0) trial.note("measured, of the bytes it needs", run.bytes / middle / 1e9, "GB/s");
  if (run.flops > 0) trial.note("measured", run.flops / middle / 1e9, "GFLOP/s");
  for (size_t i = 1; i < contenders.size(); ++i) {
    const std::string& name = contenders[i].name;
    std::vector<double> ratios;
    for (size_t round = 0; round < seconds[i].size(); ++round) ratios.push_back(seconds[i][round] / seconds[0][round]);
    trial.note("measured, cold caches, " + name, median(seconds[i]), "s");
    if (run.flops > 0) trial.note("measured, " + name, run.flops / median(seconds[i]) / 1e9, "GFLOP/s");
    trial.note("measured, speed / that of " + name, median(ratios), "x");
  }
#else
  (void)trial;
  (void)make;
#endif
}

void note_accesses(const Trial& trial, const simt::Report& report) {
  struct Cost {
    double requests = 0, passes = 0;
    bool global = true;
  };
  std::map<std::string, Cost> lines;  // a line that copies from one buffer to another has two
  for (const simt::Access& access : report.accesses) {
    const bool global = access.space == simt::Space::global;
    Cost& cost =
        lines[simt::short_text_of(access.where) + " " + simt::name_of(access.space) + " " + simt::name_of(access.kind)];
    cost.requests += static_cast<double>(access.requests);
    cost.passes += static_cast<double>(global ? access.sectors : access.wavefronts);
    cost.global = global;
  }
  for (const auto& [line, cost] : lines)
    trial.note(line, cost.passes / cost.requests, cost.global ? "sectors/request" : "wavefronts/request");
  trial.note("bytes moved / bytes asked for",
             32.0 * static_cast<double>(report.sectors()) / static_cast<double>(report.bytes_asked()), "x");
}

}  // namespace tenfold
