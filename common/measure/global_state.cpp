#include "common/measure/global_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>

#include <mutex>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace tenfold {

namespace {

at::CPUGeneratorImpl& cpu_generator() {
  return *at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
}

}  // namespace

// Not get_state(): that allocates a tensor and converts the engine into a format of 5 KB, word by word.
GlobalState::CpuGenerator GlobalState::read_cpu_generator() {
  at::CPUGeneratorImpl& generator = cpu_generator();
  const std::lock_guard<std::mutex> lock(generator.mutex_);
  return {generator.engine().data(), generator.next_float_normal_sample(), generator.next_double_normal_sample()};
}

GlobalState::Flags GlobalState::read_flags() {
  const auto& context = at::globalContext();
  return {
      .tf32_cublas = context.allowTF32CuBLAS(),
      .tf32_cudnn = context.allowTF32CuDNN(),
      .cudnn = context.userEnabledCuDNN(),
      .cudnn_benchmark = context.benchmarkCuDNN(),
      .cudnn_deterministic = context.deterministicCuDNN(),
      .mkldnn = context.userEnabledMkldnn(),
      .fp16_reduction =
          context.allowFP16ReductionCuBLAS() == at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK,
      .bf16_reduction =
          context.allowBF16ReductionCuBLAS() == at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK,
      .deterministic = context.deterministicAlgorithms(),
      .deterministic_warn_only = context.deterministicAlgorithmsWarnOnly(),
      .autocast_cpu = at::autocast::is_autocast_enabled(at::kCPU),
      .autocast_cuda = at::autocast::is_autocast_enabled(at::kCUDA),
      .autocast_cache = at::autocast::is_autocast_cache_enabled(),
      .grad_mode = at::GradMode::is_enabled(),
      .autocast_cpu_dtype = at::autocast::get_autocast_dtype(at::kCPU),
      .autocast_cuda_dtype = at::autocast::get_autocast_dtype(at::kCUDA),
      .threads = at::get_num_threads(),
  };
}

GlobalState GlobalState::capture(torch::Device device) {
  GlobalState state(read_cpu_generator(), read_flags());
#ifdef TENFOLD_WITH_CUDA
  for (c10::DeviceIndex i = 0; device.is_cuda() && i < c10::cuda::device_count(); ++i)
    state.cuda_generators_.push_back(at::cuda::detail::getDefaultCUDAGenerator(i).get_state());
#endif
  return state;
}

void GlobalState::restore() const {
  {
    at::CPUGeneratorImpl& generator = cpu_generator();
    const std::lock_guard<std::mutex> lock(generator.mutex_);
    at::mt19937 engine = generator.engine();
    engine.set_data(cpu_generator_.engine);
    generator.set_engine(engine);
    generator.set_next_float_normal_sample(cpu_generator_.next_float);
    generator.set_next_double_normal_sample(cpu_generator_.next_double);
  }
#ifdef TENFOLD_WITH_CUDA
  for (size_t i = 0; i < cuda_generators_.size(); ++i) {
    at::Generator cuda = at::cuda::detail::getDefaultCUDAGenerator(static_cast<c10::DeviceIndex>(i));
    cuda.set_state(cuda_generators_[i]);
  }
#endif
  auto& context = at::globalContext();
  // Only what differs is set: some setters warn, and setting the thread count is not free.
  const Flags now = read_flags();
  if (now.tf32_cublas != flags_.tf32_cublas) context.setAllowTF32CuBLAS(flags_.tf32_cublas);
  if (now.tf32_cudnn != flags_.tf32_cudnn) context.setAllowTF32CuDNN(flags_.tf32_cudnn);
  if (now.cudnn != flags_.cudnn) context.setUserEnabledCuDNN(flags_.cudnn);
  if (now.cudnn_benchmark != flags_.cudnn_benchmark) context.setBenchmarkCuDNN(flags_.cudnn_benchmark);
  if (now.cudnn_deterministic != flags_.cudnn_deterministic) context.setDeterministicCuDNN(flags_.cudnn_deterministic);
  if (now.mkldnn != flags_.mkldnn) context.setUserEnabledMkldnn(flags_.mkldnn);
  if (now.fp16_reduction != flags_.fp16_reduction) context.setAllowFP16ReductionCuBLAS(flags_.fp16_reduction);
  if (now.bf16_reduction != flags_.bf16_reduction) context.setAllowBF16ReductionCuBLAS(flags_.bf16_reduction);
  if (now.deterministic != flags_.deterministic || now.deterministic_warn_only != flags_.deterministic_warn_only) {
    context.setDeterministicAlgorithms(flags_.deterministic, flags_.deterministic_warn_only);
  }
  at::autocast::set_autocast_enabled(at::kCPU, flags_.autocast_cpu);
  at::autocast::set_autocast_enabled(at::kCUDA, flags_.autocast_cuda);
  at::autocast::set_autocast_cache_enabled(flags_.autocast_cache);
  at::autocast::set_autocast_dtype(at::kCPU, flags_.autocast_cpu_dtype);
  at::autocast::set_autocast_dtype(at::kCUDA, flags_.autocast_cuda_dtype);
  at::GradMode::set_enabled(flags_.grad_mode);
  if (now.threads != flags_.threads) at::set_num_threads(flags_.threads);
}

bool GlobalState::same_flags(const GlobalState& other) const { return flags_ == other.flags_; }

}  // namespace tenfold
