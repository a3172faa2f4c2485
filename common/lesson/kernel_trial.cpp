#include <tenfold/kernel_trial.h>

#include <tenfold/clock.h>
#include <tenfold/roofline.h>
#include <tenfold/statistics.h>

#include <filesystem>
#include <map>

#ifdef TENFOLD_WITH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

namespace tenfold {

simt::Report note_under_microscope(const Trial& trial, double flops, const std::function<void(simt::Device&)>& work) {
  simt::Device device;
  work(device);
  simt::Report report = device.report();
  for (const simt::Fault& fault : report.faults) throw std::runtime_error(simt::text_of(fault.where) + ": " + fault.text);
  for (const simt::Race& race : report.races) {
    throw std::runtime_error("race between " + simt::text_of(race.first) + " and " + simt::text_of(race.second));
  }
  struct Cost {
    double requests = 0, passes = 0;
    bool global = true;
  };
  std::map<std::string, Cost> lines;  // a line that copies from one buffer to another has two
  int64_t asked = 0;
  for (const simt::Access& access : report.accesses) {
    const bool global = access.space == simt::Space::global;
    Cost& cost = lines[std::filesystem::path(access.where.file).filename().string() + ":" + std::to_string(access.where.line) + " " +
                       simt::name_of(access.space) + " " + simt::name_of(access.kind)];
    cost.requests += static_cast<double>(access.requests);
    cost.passes += static_cast<double>(global ? access.sectors : access.wavefronts);
    cost.global = global;
    if (global) asked += access.bytes_asked();
  }
  for (const auto& [line, cost] : lines)
    trial.note(line, cost.passes / cost.requests, cost.global ? "sectors/request" : "wavefronts/request");
  trial.note("bytes moved / bytes asked for", 32.0 * static_cast<double>(report.sectors()) / static_cast<double>(asked), "x");
  trial.note("modelled on an H100, not measured", simt::roofline(simt::gpu_named("H100"), report, flops).seconds, "s");
  return report;
}

void note_time_on_gpu(const Trial& trial, double bytes, const std::function<void(CUstream_st*)>& launch) {
#ifdef TENFOLD_WITH_CUDA
  if (!trial.device.is_cuda()) return;
  const torch::Tensor flush = torch::empty({int64_t{1} << 28}, torch::dtype(torch::kByte).device(trial.device));  // more than any L2
  std::vector<double> seconds;
  for (int i = 0; i < 21; ++i) {
    flush.zero_();
    seconds.push_back(time_block(trial.device, [&] { launch(c10::cuda::getCurrentCUDAStream().stream()); }));
  }
  const double middle = median(seconds);
  trial.note("measured, cold caches", middle, "s");
  trial.note("measured, of the bytes it needs", bytes / middle / 1e9, "GB/s");
#endif
}

}  // namespace tenfold
