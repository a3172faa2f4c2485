// tenfold-probe: what this machine can do at most. Writes <cache>/probe/<machine id>.json for predictions.
//
// Each ceiling is the median of several rounds of at least 60 ms; the best round would promise what no step gets.
// Inputs are random normal numbers: zeros draw less power and run faster than any real data.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/progress_line.h"
#include "common/base/seconds_since.h"
#include "common/base/streams.h"
#include "common/machine/fingerprint.h"
#include "common/ranks/rank_threads.h"
#include "common/result/statistics.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 7;
constexpr double kBlockSeconds = 0.06;

void wait_for(const torch::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize();
}

/// Median seconds of one call. The first calls are thrown away; a block is as many calls as kBlockSeconds hold.
double seconds_per_call(const torch::Device& device, const std::function<void()>& call) {
  call(), call();
  wait_for(device);
  int64_t calls = 1;
  for (double passed = 0;; calls = std::max(calls * 2, static_cast<int64_t>(static_cast<double>(calls) * kBlockSeconds /
                                                                            std::max(passed, 1e-6)))) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) call();
    wait_for(device);
    passed = tenfold::seconds_since(start);
    if (passed >= kBlockSeconds / 2) break;
  }
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) call();
    wait_for(device);
    rounds.push_back(tenfold::seconds_since(start) / static_cast<double>(calls));
  }
  return tenfold::median(rounds);
}

/// Bytes read plus bytes written, per second, for arrays that no cache holds.
double copy_rate(const torch::Device& device, int64_t floats) {
  const torch::Tensor from = torch::randn({floats}, device);
  torch::Tensor to = torch::empty_like(from);
  return 2.0 * static_cast<double>(from.nbytes()) / seconds_per_call(device, [&] { to.copy_(from); });
}

double matmul_rate(const torch::Device& device, int64_t n, torch::ScalarType type) {
  const torch::Tensor a = torch::randn({n, n}, device).to(type), b = torch::randn({n, n}, device).to(type);
  torch::Tensor c = torch::empty({n, n}, a.options());
  const double operations = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  return operations / seconds_per_call(device, [&] { at::mm_out(c, a, b); });
}

/// Median seconds of one all-reduce of two ranks over Gloo on this machine's loopback, started and waited for in turn.
double all_reduce_seconds(int64_t floats) {
  std::vector<double> rounds;
  tenfold::on_rank_threads(
      2, std::chrono::seconds(30), [&](int rank, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
        std::vector<torch::Tensor> values{torch::empty({floats})};
        const auto block = [&](int64_t calls) {
          values[0].normal_();               // each sum replaces its summands: they would grow without end
          group->allreduce(values)->wait();  // both ranks are here
          const auto start = Clock::now();
          for (int64_t i = 0; i < calls; ++i) group->allreduce(values)->wait();
          return tenfold::seconds_since(start) / static_cast<double>(calls);
        };
        block(3);
        // Both ranks must make equally many calls, so they agree on how long one takes. 100 doublings are no overflow
        // yet.
        std::vector<torch::Tensor> sum_of_both{torch::tensor({block(10)}, torch::kDouble)};
        group->allreduce(sum_of_both)->wait();
        const int64_t calls =
            std::clamp<int64_t>(static_cast<int64_t>(2 * kBlockSeconds / sum_of_both[0].item<double>()), 3, 100);
        for (int round = 0; round < kRounds; ++round) {
          const double seconds = block(calls);
          if (rank == 0) rounds.push_back(seconds);
        }
      });
  return tenfold::median(rounds);
}

/// An all-reduce of n bytes takes cpu_all_reduce_seconds + n / cpu_all_reduce_bytes_per_s.
void probe_all_reduce(std::map<std::string, double>& ceilings) {
  try {
    const int64_t floats = 4 << 20;
    const double latency = all_reduce_seconds(1), large = all_reduce_seconds(floats);
    if (large <= latency) throw std::runtime_error("16 MiB took no longer than 4 bytes");
    ceilings["cpu_all_reduce_seconds"] = latency;
    ceilings["cpu_all_reduce_bytes_per_s"] = 4.0 * static_cast<double>(floats) / (large - latency);
  } catch (const std::exception& error) {  // e.g. no loopback: the other ceilings are worth keeping
    const std::string text = error.what();
    std::fprintf(stderr, "all-reduce of two ranks is left out: %s\n", text.substr(0, text.find('\n')).c_str());
  }
}

void probe_cpu(std::map<std::string, double>& ceilings, const std::function<void(double, const char*)>& at) {
  const torch::Device cpu(torch::kCPU);
  at(0.0, "CPU copy rate");
  ceilings["cpu_copy_bytes_per_s"] = copy_rate(cpu, 32 << 20);
  at(0.15, "CPU matrix products");
  ceilings["cpu_flops_per_s"] = matmul_rate(cpu, 1024, torch::kFloat32);
  ceilings["cpu_gemm_small_flops_per_s"] = matmul_rate(cpu, 64, torch::kFloat32);
  at(0.35, "CPU cost of one operator");
  torch::Tensor one = torch::randn({1}), two = torch::randn({1});
  ceilings["cpu_op_seconds"] = seconds_per_call(cpu, [&] { one.add_(two); });
  ceilings["cpu_new_tensor_op_seconds"] = seconds_per_call(cpu, [&] { torch::Tensor sum = one + two; });
  {
    // The same with a graph to record and walk: what a training step pays for each operator beyond its arithmetic.
    const torch::AutoGradMode recording(true);
    torch::Tensor leaf = torch::randn({1}, torch::requires_grad());
    const int chain = 32;
    ceilings["cpu_autograd_op_seconds"] = seconds_per_call(cpu,
                                                           [&] {
                                                             torch::Tensor x = leaf;
                                                             for (int i = 0; i < chain; ++i) x = x * two;
                                                             x.backward();
                                                             leaf.mutable_grad().reset();
                                                           }) /
                                          chain;
  }
  at(0.5, "CPU allocation");
  ceilings["cpu_alloc_1mib_seconds"] = seconds_per_call(cpu, [&] { torch::Tensor block = torch::empty({1 << 18}); });
  at(0.52, "all cores");
  at::set_num_threads(tenfold::fingerprint().cores);
  // All cores are never less than one of them: where two share a unit, or a neighbour has one, threads that wait for
  // each other may be slower than one alone.
  ceilings["cpu_all_cores_copy_bytes_per_s"] = std::max(copy_rate(cpu, 32 << 20), ceilings["cpu_copy_bytes_per_s"]);
  ceilings["cpu_all_cores_flops_per_s"] =
      std::max(matmul_rate(cpu, 1024, torch::kFloat32), ceilings["cpu_flops_per_s"]);
  at::set_num_threads(1);
  at(0.55, "all-reduce of two ranks");
  probe_all_reduce(ceilings);
}

void probe_cuda(std::map<std::string, double>& ceilings, const std::function<void(double, const char*)>& at) {
  const torch::Device gpu(torch::kCUDA, 0), cpu(torch::kCPU);
  at(0.6, "GPU copy rate");
  ceilings["cuda_copy_bytes_per_s"] = copy_rate(gpu, 64 << 20);
  at(0.7, "GPU matrix products");
  at::globalContext().setAllowTF32CuBLAS(false);
  ceilings["cuda_flops_fp32"] = matmul_rate(gpu, 4096, torch::kFloat32);
  at::globalContext().setAllowTF32CuBLAS(true);
  ceilings["cuda_flops_tf32"] = matmul_rate(gpu, 4096, torch::kFloat32);
  at::globalContext().setAllowTF32CuBLAS(false);
  ceilings["cuda_flops_bf16"] = matmul_rate(gpu, 8192, torch::kBFloat16);
  at(0.85, "transfers");
  const torch::Tensor pageable = torch::randn({16 << 20}), pinned = pageable.pin_memory();
  torch::Tensor there = torch::empty({16 << 20}, gpu);
  const auto bytes = static_cast<double>(there.nbytes());
  ceilings["cuda_h2d_pageable_bytes_per_s"] = bytes / seconds_per_call(gpu, [&] { there.copy_(pageable); });
  ceilings["cuda_h2d_pinned_bytes_per_s"] = bytes / seconds_per_call(gpu, [&] { there.copy_(pinned, true); });
  torch::Tensor back = torch::empty({16 << 20}, torch::TensorOptions().pinned_memory(true));
  ceilings["cuda_d2h_pinned_bytes_per_s"] = bytes / seconds_per_call(gpu, [&] { back.copy_(there, true); });
  at(0.95, "launches");
  torch::Tensor one = torch::randn({1}, gpu);
  // Queued back to back, so this is what the host pays for one tiny operator including its launch.
  ceilings["cuda_launch_seconds"] = seconds_per_call(gpu, [&] { one.add_(1); });
}

}  // namespace

int main() {
  tenfold::open_standard_streams();
  try {
    const torch::NoGradGuard no_grad;
    at::set_num_threads(1);
    torch::manual_seed(1234);
    const bool gpu = torch::cuda::is_available();
    const auto progress = [&](double fraction, const char* what) {
      tenfold::print_progress(gpu ? fraction : std::min(1.0, fraction / 0.6), what);
    };
    std::map<std::string, double> ceilings;
    probe_cpu(ceilings, progress);
    if (gpu) probe_cuda(ceilings, progress);
    tenfold::write_atomically(tenfold::ceilings_file(tenfold::fingerprint().id),
                              nlohmann::json(ceilings).dump(1) + "\n");
    return 0;
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "%s\n", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}
