#pragma once
// Random state and process-wide flags, saved and restored around every measured block, so that one variant's settings
// cannot leak into another's time.

#include <torch/torch.h>

#include <ATen/core/MT19937RNGEngine.h>

#include <optional>

namespace tenfold {

/// A copy of: CPU and CUDA generator states; TF32, cuDNN, oneDNN and reduced-precision flags; deterministic mode;
/// autocast per device with its type; grad mode; intra-op threads. Cheap enough for every block: on a CPU no tensor is
/// made.
class GlobalState {
 public:
  /// Reads the current state; on a GPU the generators of all GPUs belong to it besides the CPU's.
  static GlobalState capture(torch::Device device);
  void restore() const;
  /// Compares the flags (not the generators).
  bool same_flags(const GlobalState& other) const;

 private:
  struct Flags {
    bool tf32_cublas, tf32_cudnn, cudnn, cudnn_benchmark, cudnn_deterministic, mkldnn;
    bool fp16_reduction, bf16_reduction, deterministic, deterministic_warn_only;
    bool autocast_cpu, autocast_cuda, autocast_cache, grad_mode;
    at::ScalarType autocast_cpu_dtype, autocast_cuda_dtype;
    int threads;
    bool operator==(const Flags&) const = default;
  };
  // All that a CPU generator is made of: the engine, and the second half of a pair of normal numbers.
  struct CpuGenerator {
    at::mt19937_data_pod engine;
    std::optional<float> next_float;
    std::optional<double> next_double;
  };

  GlobalState(const CpuGenerator& cpu_generator, const Flags& flags) : cpu_generator_(cpu_generator), flags_(flags) {}
  static CpuGenerator read_cpu_generator();
  static Flags read_flags();

  CpuGenerator cpu_generator_;
  std::vector<torch::Tensor> cuda_generators_;  // 16 bytes each: seed and offset
  Flags flags_;
};

}  // namespace tenfold
