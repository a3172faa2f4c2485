// installs as <tenfold/dynamic_int8_linear.h>
#pragma once
// Dynamic quantization of a linear layer: weights of int8, packed once; activations are quantized anew in every call,
// with a scale that their own smallest and largest value give. The product is one of integers. On a CPU alone.
//
//   const DynamicInt8Linear fast(layer->weight, layer->bias);  // under torch::NoGradGuard
//   y = fast.forward(x);
//
// The operators are PyTorch's, by FBGEMM: what torch.ao.quantization.quantize_dynamic calls.

#include <torch/torch.h>

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/quantized/PackedParams.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>

#include "eight_bit_rows.h"

namespace tenfold {

/// Whether this CPU and this LibTorch have FBGEMM's integer products: x86 with AVX2.
inline bool has_int8_products() {
  const auto& engines = at::globalContext().supportedQEngines();
  return std::ranges::find(engines, at::QEngine::FBGEMM) != engines.end();
}

/// FBGEMM cuts a packed weight into blocks and fills up the last ones: so many inputs by so many outputs each.
struct PackedBlock {
  int64_t inputs, outputs;
};

/// That of this CPU. Source: FBGEMM, include/fbgemm/PackingTraits-inl.h, KCB and NCB for sums of 32 bits.
inline PackedBlock packed_block() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni")) return {512, 48};
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return {256, 32};
#endif
  return {512, 8};
}

/// Bytes that a packed weight (out, in) takes outside PyTorch's allocator: whole blocks, and of each output a scale, a
/// zero point and a sum. The bias stays the layer's own tensor.
inline int64_t packed_bytes(int64_t outputs, int64_t inputs, PackedBlock block = packed_block()) {
  const auto whole = [](int64_t count, int64_t multiple) { return (count + multiple - 1) / multiple * multiple; };
  return whole(inputs, block.inputs) * whole(outputs, block.outputs) + 12 * outputs;
}

/// The rows in the form that FBGEMM reads. Throws std::runtime_error where there is no FBGEMM.
inline c10::intrusive_ptr<LinearPackedParamsBase> pack_int8(const EightBitRows& rows, const torch::Tensor& bias) {
  if (!has_int8_products()) throw std::runtime_error("dynamic int8 needs FBGEMM: a CPU of x86 with AVX2");
  using Prepack = c10::intrusive_ptr<LinearPackedParamsBase>(at::Tensor, std::optional<at::Tensor>);
  static const auto prepack =
      c10::Dispatcher::singleton().findSchemaOrThrow("quantized::linear_prepack", "").typed<Prepack>();
  struct Engine {  // the engine decides the packed form; it is a setting of the whole process
    at::QEngine before = at::globalContext().qEngine();
    ~Engine() { at::globalContext().setQEngine(before); }
  } engine;
  at::globalContext().setQEngine(at::QEngine::FBGEMM);
  const torch::Tensor zero_points = torch::zeros_like(rows.scales, torch::kLong);
  const torch::Tensor weight =
      at::_make_per_channel_quantized_tensor(rows.codes, rows.scales.to(torch::kDouble), zero_points, /*axis=*/0);
  return prepack.call(weight, bias.defined() ? std::optional(bias.detach()) : std::nullopt);
}

/// x (..., in) by a packed weight: (..., out), in 32 bits. Activations get 7 bits and not 8 with `reduce_range`, the
/// default as in PyTorch: before VNNI a CPU adds two products of 8 bits in 16, which may not be enough, and then the
/// sum saturates without a word. Throws c10::NotImplementedError for an x on a GPU.
inline torch::Tensor dynamic_int8_product(const torch::Tensor& x,
                                          const c10::intrusive_ptr<LinearPackedParamsBase>& packed,
                                          bool reduce_range = true) {
  using Product = at::Tensor(at::Tensor, const c10::intrusive_ptr<LinearPackedParamsBase>&, bool);
  static const auto product =
      c10::Dispatcher::singleton().findSchemaOrThrow("quantized::linear_dynamic", "").typed<Product>();
  return product.call(x, packed, reduce_range);
}

class DynamicInt8Linear {
 public:
  /// A weight (out, in) and a bias (out), or none, on the CPU. Keeps the bias and no other tensor of them: what rests
  /// of the weight is packed_bytes() that no statistic of PyTorch's shows.
  DynamicInt8Linear(const torch::Tensor& weight, const torch::Tensor& bias)
      : packed_(pack_int8(int8_rows(weight), bias)), outside_bytes_(packed_bytes(weight.size(0), weight.size(1))) {}

  torch::Tensor forward(const torch::Tensor& x) const { return dynamic_int8_product(x, packed_); }
  int64_t outside_bytes() const { return outside_bytes_; }

 private:
  c10::intrusive_ptr<LinearPackedParamsBase> packed_;
  int64_t outside_bytes_;
};

}  // namespace tenfold
