#include <tenfold/kernel_trial.h>

#include <tenfold/clock.h>
#include <tenfold/roofline.h>
#include <tenfold/statistics.h>

#include <map>

#ifdef TENFOLD_WITH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

namespace tenfold {

simt::Report under_microscope(const std::function<bool(simt::Device&)>& work) {
  simt::Device device;
  const bool right = work(device);
  const simt::Report report = device.report();
  for (const simt::Fault& fault : report.faults) throw std::runtime_error(simt::text_of(fault.where) + ": " + fault.text);
  for (const simt::Race& race : report.races) {
    throw std::runtime_error("race between " + simt::text_of(race.first) + " and " + simt::text_of(race.second));
  }
  if (!right) throw std::runtime_error("the kernel's result is wrong under the microscope");
  return report;
}

torch::Tensor as_tensor(const simt::Buffer<float>& buffer, at::IntArrayRef sizes) {
  return torch::from_blob(buffer.data(), sizes.empty() ? at::IntArrayRef(buffer.size()) : sizes);
}

void note_accesses(const Trial& trial, const simt::Report& report, double flops) {
  struct Cost {
    double requests = 0, passes = 0;
    bool global = true;
  };
  std::map<std::string, Cost> lines;  // a line that copies from one buffer to another has two
  for (const simt::Access& access : report.accesses) {
    const bool global = access.space == simt::Space::global;
    Cost& cost = lines[simt::short_text_of(access.where) + " " + simt::name_of(access.space) + " " + simt::name_of(access.kind)];
    cost.requests += static_cast<double>(access.requests);
    cost.passes += static_cast<double>(global ? access.sectors : access.wavefronts);
    cost.global = global;
  }
  for (const auto& [line, cost] : lines)
    trial.note(line, cost.passes / cost.requests, cost.global ? "sectors/request" : "wavefronts/request");
  trial.note("bytes moved / bytes asked for", 32.0 * static_cast<double>(report.sectors()) / static_cast<double>(report.bytes_asked()),
             "x");
  trial.note("modelled on an H100, not measured", simt::roofline(simt::gpu_named("H100"), report, flops).seconds, "s");
}

void note_time_on_gpu(const Trial& trial, double bytes, const std::function<void(CUstream_st*)>& launch,
                      const std::function<bool()>& right) {
#ifdef TENFOLD_WITH_CUDA
  if (!trial.device.is_cuda()) return;
  const auto launch_here = [&] { launch(c10::cuda::getCurrentCUDAStream().stream()); };
  launch_here();
  if (!right()) throw std::runtime_error("the kernel's result is wrong on this GPU");
  const torch::Tensor flush = torch::empty({int64_t{1} << 28}, torch::dtype(torch::kByte).device(trial.device));  // more than any L2
  std::vector<double> seconds;
  for (int i = 0; i < 21; ++i) {
    flush.zero_();
    seconds.push_back(time_block(trial.device, launch_here));
  }
  const double middle = median(seconds);
  trial.note("measured, cold caches", middle, "s");
  trial.note("measured, of the bytes it needs", bytes / middle / 1e9, "GB/s");
#endif
}

}  // namespace tenfold
