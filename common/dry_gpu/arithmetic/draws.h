#pragma once
// Random numbers of a dry card: drawn on the CPU, from what the card's generator says.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace tenfold::dry {

/// Whether an operator draws: an attention without dropout only could.
bool draws(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments);

/// What an operator draws follows from the card's generator, of which LibTorch keeps seed and offset on the host. The
/// CPU's own generator is put back: on a GPU it does not move.
struct Seed {
  uint64_t seed = 0;
  bool draws = false;
  at::Generator of_card = {};

  /// Of the generator among the arguments, or of the card's default one, before the operator moves it on.
  static Seed of(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments, c10::Device card);
  /// As LibTorch's kernel would, where none of them runs.
  void move_on();
};

/// For an operator that takes no generator. Whoever draws from the CPU's own one meanwhile disturbs it, and it him.
class Drawing {
 public:
  explicit Drawing(const Seed& seed);
  ~Drawing();
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;

 private:
  bool on_;
  at::Generator generator_;
  at::Tensor kept_;
};

}  // namespace tenfold::dry
