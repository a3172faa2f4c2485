#include "common/dry_gpu/arithmetic/draws.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <mutex>

namespace tenfold::dry {

bool draws(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments) {
  if (!op.hasTag(at::Tag::nondeterministic_seeded)) return false;
  const std::optional<int> dropout = op.schema().argumentIndexWithName("dropout_p");
  return !dropout || arguments[static_cast<size_t>(*dropout)].toDouble() > 0;
}

Seed Seed::of(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments, c10::Device card) {
  if (!dry::draws(op, arguments)) return {};
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(card.index());
  for (const c10::IValue& argument : arguments) {
    if (argument.isGenerator() && argument.toGenerator().defined()) generator = argument.toGenerator();
  }
  if (generator.device().type() != c10::kCUDA) return {};
  const std::lock_guard<std::mutex> guard(generator.mutex());
  const uint64_t offset = generator.get_offset();
  return {generator.current_seed() * 0x9E3779B97F4A7C15U ^ (offset + 1) * 0xBF58476D1CE4E5B9U, true, generator};
}

void Seed::move_on() {
  if (!draws) return;
  const std::lock_guard<std::mutex> guard(of_card.mutex());
  of_card.set_offset(of_card.get_offset() + 4);
}

Drawing::Drawing(const Seed& seed) : on_(seed.draws), generator_(at::detail::getDefaultCPUGenerator()) {
  if (!on_) return;
  const std::lock_guard<std::mutex> guard(generator_.mutex());
  kept_ = generator_.get_state();
  generator_.set_current_seed(seed.seed);
}

Drawing::~Drawing() {
  if (!on_) return;
  const std::lock_guard<std::mutex> guard(generator_.mutex());
  generator_.set_state(kept_);
}

}  // namespace tenfold::dry
