#pragma once
// adamw for LibTorch.

#include <torch/torch.h>

#include "adamw.h"

namespace tenfold::fused {

/// Step number `step` (1 for the first) of AdamW, in place, for all these parameters at once. `averages` and
/// `square_averages`, zeros before the first step, and `gradients` belong to the parameters of the same index: float,
/// of the same shape, strides and device, each without gaps or overlaps. CUDA tensors: the kernel of adamw.h on the
/// current stream, a launch for kAdamWTensors tensors. CPU tensors: the same kernel under the microscope, for tests and
/// for looking: very slow. Tensors on `meta` are checked. Throws c10::Error for anything else, and what adamw() throws,
/// before anything is changed.
void adamw_(at::TensorList parameters, at::TensorList averages, at::TensorList square_averages,
            at::TensorList gradients, const kernels::AdamWSettings& settings, int64_t step);

/// torch::optim::AdamW, options, state and checkpoints included, with step() done by adamw_(): one call for all
/// parameters of a group that are on one device and have seen as many steps. A gradient with other strides than its
/// parameter is copied. step() checks all groups before it changes a parameter, an average or a step number (LibTorch's
/// goes group by group). It throws c10::Error for amsgrad; for a parameter that is not float, not on the CPU or CUDA,
/// or has gaps; for a gradient that is sparse, or of another type, device or shape than its parameter; for averages, as
/// of a state that was loaded, that do not fit; and std::invalid_argument for options outside adamw()'s.
class FusedAdamW : public torch::optim::AdamW {
 public:
  using torch::optim::AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

namespace reference {
/// adamw_() by ATen's own fused kernel.
void adamw_(at::TensorList parameters, at::TensorList averages, at::TensorList square_averages,
            at::TensorList gradients, const kernels::AdamWSettings& settings, int64_t step);
}  // namespace reference

}  // namespace tenfold::fused
