// installs as <tenfold/chunked_linear_cross_entropy.h>
#pragma once
// The last layer of a language model and its loss together, in chunks of rows: the logits are never materialised as a
// whole.

#include <torch/torch.h>

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstdint>

#include "lessons/21_mixed_precision/autocast.h"

namespace tenfold {

struct ChunkedCrossEntropyOptions {
  int64_t chunk_rows = 0;       ///< rows of logits at a time; 0 takes default_chunk_rows()
  int64_t ignore_index = -100;  ///< the target of rows that do not count
};

/// Rows whose logits are together about as large as `hidden` (rows, width) itself, and at least 64: for fewer, reading
/// the weight again for each chunk would cost more than working on the logits. That is for memory. A GPU's tensor cores
/// ask for more in 16 bits, 1024: a chunk of C rows takes 6 C FLOP for each weight, and moves the weight twice at 2
/// bytes and its gradient twice at 4. That is C / 2 FLOP a byte, and an H100 can do 295 in the time of one.
/// Whether a chunk whose logits fit into the L2 cache, about 200 rows there, is faster still, no card has said.
inline int64_t default_chunk_rows(int64_t rows, int64_t width, int64_t classes) {
  return std::max<int64_t>(64, rows * width / std::max<int64_t>(classes, 1));
}

namespace chunked_cross_entropy_detail {

using torch::Tensor;
using torch::autograd::variable_list;

/// fp16's gradients of the logits times the number of rows lie in [-1, 1]. Times this they fit below fp16's largest
/// number, 65504, and probabilities down to 2e-9 stay above its smallest normal one, 6e-5.
constexpr double kHalfScale = 32768;

/// a times b to `result` (float). On CUDA both are of 16 bits, and only the result has 32; on the CPU, where no
/// operator does that, a is float, and b is widened.
inline void set_product(Tensor result, const Tensor& a, const Tensor& b) {
  if (result.is_cuda()) {
    at::mm_out(result, a, b, torch::kFloat);
  } else {
    at::mm_out(result, a, b.to(torch::kFloat));
  }
}

/// Whether a matmul on this GPU takes bfloat16 and gives float: from compute capability 8.0 on, which is what cuDNN's
/// convolutions ask for. LibTorch tells it without CUDA's headers.
inline bool multiplies_bfloat16(torch::Device device) {
  const c10::DeviceGuard on(device);
  return at::detail::getCUDAHooks().supportsBFloat16ConvolutionWithCuDNNv8();
}

/// a times b, added to `sum` (float or double) by the matmul itself: it rounds no product to 16 bits and makes no
/// tensor of them. On CUDA a and b have one type; on the CPU a has that of the sum, and b is widened.
inline void add_product(Tensor sum, const Tensor& a, const Tensor& b) {
  if (sum.is_cpu() || a.scalar_type() == sum.scalar_type()) {
    sum.addmm_(a, b.to(sum.scalar_type()));
  } else if (a.scalar_type() == torch::kHalf || multiplies_bfloat16(sum.device())) {
    at::addmm_out(sum, sum, a, b, torch::kFloat);
  } else {
    sum.add_(at::mm(a, b));
  }
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  /// hidden (N, D), weight (V, D), targets (N). Computes the gradients at once, while a chunk's logits are there; so
  /// backward() needs no logits, and they need not be kept. The scale of the loss arrives only in backward(), too late
  /// for fp16: there the gradients stay in 32 bits until then.
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& hidden, const Tensor& weight,
                        const Tensor& targets, int64_t chunk_rows, int64_t ignore_index, bool hidden_gradient,
                        bool weight_gradient) {
    const auto wide = hidden.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
    const Tensor ignored = (targets == ignore_index).unsqueeze(1);        // (N, 1)
    const Tensor classes = targets.unsqueeze(1).masked_fill(ignored, 0);  // (N, 1)
    const bool half = hidden.scalar_type() == torch::kHalf;
    const Tensor counted = ignored.logical_not().sum().to(wide);  // stays on the device: no waiting
    const Tensor mean = counted.clamp_min(1).reciprocal();
    const Tensor scales =
        ignored.logical_not().to(wide) * (half ? torch::full_like(mean, kHalfScale) : mean);  // (N, 1)
    Tensor total = torch::zeros({}, hidden.options().dtype(wide));
    Tensor grad_hidden, grad_weight;
    if (hidden_gradient) grad_hidden = torch::empty_like(hidden, half ? scales.options() : hidden.options());
    if (weight_gradient)
      grad_weight = torch::zeros_like(weight, weight.options().dtype(wide));  // 16 bits would lose late chunks
    for (int64_t first = 0; first < hidden.size(0); first += chunk_rows) {
      const auto chunk_of = [&](const Tensor& t) {
        return t.narrow(0, first, std::min(chunk_rows, t.size(0) - first));
      };
      const Tensor h = chunk_of(hidden), target = chunk_of(classes), scale = chunk_of(scales);
      Tensor p =
          at::mm(h, weight.t()).to(wide);  // (C, V), the only tensor of that size: logits now, changed in place below
      p.sub_(p.amax(1, /*keepdim=*/true));
      const Tensor target_logit = p.gather(1, target);
      const Tensor sum = p.exp_().sum(1, /*keepdim=*/true);
      total += (sum.log() - target_logit).masked_fill_(chunk_of(ignored), 0).sum();
      if (!hidden_gradient && !weight_gradient) continue;
      p.mul_(scale / sum);                                                          // softmax / counted
      p.scatter_(1, target, p.gather(1, target) - scale);                           // - 1 / counted at the target
      const Tensor gradient = half && p.is_cpu() ? p : p.to(hidden.scalar_type());  // no copy when p has that type
      if (hidden_gradient && half) {
        set_product(chunk_of(grad_hidden), gradient, weight);
      } else if (hidden_gradient) {
        Tensor part = chunk_of(grad_hidden);
        at::mm_out(part, gradient, weight);
      }
      if (weight_gradient) add_product(grad_weight, (p.is_cpu() ? p : gradient).t(), h);
    }
    if (weight_gradient && !half) grad_weight = grad_weight.to(weight.scalar_type());
    context->save_for_backward({grad_hidden, grad_weight, half ? mean / kHalfScale : torch::ones_like(mean)});
    context->saved_data["type"] = hidden.scalar_type();
    return total / counted;  // 0 / 0 when nothing counts
  }

  static variable_list backward(torch::autograd::AutogradContext* context, const variable_list& output_gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "chunked_linear_cross_entropy: backward(create_graph = true) is not supported: the gradients were "
                "computed in forward, "
                "and no graph of them exists; use linear and cross_entropy where second derivatives are needed");
    const variable_list saved = context->get_saved_variables();  // throws when backward() has already freed them
    // Multiplied in 32 bits at least, in which (1) and not () makes it take part: 65536 is infinite in fp16.
    const Tensor factor = (output_gradients[0] * saved[2]).unsqueeze(0);  // (1)
    variable_list result(7);
    for (size_t i = 0; i < 2; ++i) {
      if (!saved[i].defined()) continue;
      result[i] = torch::empty_like(saved[i], saved[i].options().dtype(context->saved_data["type"].toScalarType()));
      at::mul_out(result[i], saved[i], factor);
    }
    return result;
  }
};

}  // namespace chunked_cross_entropy_detail

/// Mean cross-entropy of the logits `hidden` (..., D) times `weight` (V, D) transposed against `targets` (...), int64:
/// what cross_entropy(linear(hidden, weight), targets) returns, without ever holding more than chunk_rows rows of
/// logits. Forward computes the gradients too (unless grad mode is off or neither input requires one); backward() only
/// multiplies them by the loss's own gradient. Losses and gradients differ from the plain ones as sums in another order
/// do. `hidden` and `weight` have one floating type; sums and the result are in 32 bits for 16-bit types, else in that
/// type. In fp16 the gradients stay in 32 bits until the loss's own gradient, and with it a loss scale, has arrived:
/// (N, D) and (V, D) numbers of 4 bytes, and as precise as the plain loss's. Under autocast both are cast first, as
/// linear does. Rows whose target is `ignore_index` do not count; when none counts, the loss is NaN and the gradients
/// are 0, as PyTorch's are. Throws c10::ValueError for sizes, types or devices that do not fit, and c10::IndexError for
/// a target that is no class (on CUDA, where looking would mean waiting: a device-side assertion). backward() throws
/// c10::Error with create_graph, and, like any backward(), the second time unless the first retained the graph. Source:
/// Hsu et al., Liger Kernel, 2024 (arXiv:2410.10989), section 3.2; Wijmans et al., Cut Your Losses, 2024
/// (arXiv:2411.09009) goes further.
inline torch::Tensor chunked_linear_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& weight,
                                                  const torch::Tensor& targets,
                                                  const ChunkedCrossEntropyOptions& options = {}) {
  TORCH_CHECK_VALUE(hidden.dim() >= 1 && weight.dim() == 2 && hidden.size(-1) == weight.size(1),
                    "chunked_linear_cross_entropy: hidden ", hidden.sizes(), " times the transpose of weight ",
                    weight.sizes(), " is not defined; expected (..., D) and (V, D)");
  TORCH_CHECK_VALUE(targets.sizes() == hidden.sizes().slice(0, static_cast<size_t>(hidden.dim()) - 1),
                    "chunked_linear_cross_entropy: targets ", targets.sizes(), " do not fit hidden ", hidden.sizes());
  TORCH_CHECK_VALUE(targets.scalar_type() == torch::kLong, "chunked_linear_cross_entropy: targets must be int64, not ",
                    targets.scalar_type());
  TORCH_CHECK_VALUE(hidden.device() == weight.device() && hidden.device() == targets.device(),
                    "chunked_linear_cross_entropy: hidden, weight and targets must be on one device");
  TORCH_CHECK_VALUE(options.chunk_rows >= 0, "chunked_linear_cross_entropy: chunk_rows=", options.chunk_rows,
                    " is negative");
  torch::Tensor h = autocast_input(hidden);
  const torch::Tensor w = autocast_input(weight);
  TORCH_CHECK_VALUE(h.is_floating_point() && h.scalar_type() == w.scalar_type(),
                    "chunked_linear_cross_entropy: hidden is ", h.scalar_type(), " and weight ", w.scalar_type(),
                    "; expected one floating type");
  h = h.reshape({-1, h.size(-1)});                   // (N, D)
  const torch::Tensor flat = targets.reshape({-1});  // (N)
  if (flat.is_cpu()) {
    const torch::Tensor wrong = flat.masked_select((flat != options.ignore_index) & ((flat < 0) | (flat >= w.size(0))));
    TORCH_CHECK_INDEX(wrong.numel() == 0, "chunked_linear_cross_entropy: target ", wrong[0].item<int64_t>(),
                      " is no class; there are ", w.size(0), " and the ignored target is ", options.ignore_index);
  }
  const int64_t rows =
      options.chunk_rows > 0 ? options.chunk_rows : default_chunk_rows(h.size(0), h.size(1), w.size(0));
  const bool recording = at::GradMode::is_enabled();
  const auto device = hidden.device().type();
  const Autocast off(device, at::autocast::get_autocast_dtype(device), /*enabled=*/false);  // the types are chosen
  return chunked_cross_entropy_detail::LinearCrossEntropy::apply(
      h, w, flat, rows, options.ignore_index, recording && h.requires_grad(), recording && w.requires_grad());
}

}  // namespace tenfold
