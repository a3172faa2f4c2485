#include "flash_attention_torch.h"

#include "flash_attention.h"

#include "kernels/torch_binding.h"

#include <algorithm>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace tenfold::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kName = "fused::flash_attention";

kernels::AttentionShape attention_shape(const Tensor& q, const Tensor& k, bool causal) {
  return {q.size(0), q.size(1), q.size(2), k.size(2), q.size(3), causal};
}

void check(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const auto& [name, tensor] : {std::pair<const char*, const Tensor&>{"q", q}, {"k", k}, {"v", v}}) {
    TORCH_CHECK(tensor.defined() && tensor.dim() == 4, kName, ": ", name,
                " must have shape (batch, heads, length, head_dim)");
    check_input(kName, tensor);
    TORCH_CHECK(tensor.scalar_type() == q.scalar_type() && tensor.device() == q.device(), kName, ": ", name, " is ",
                tensor.scalar_type(), " on ", tensor.device(), " and q ", q.scalar_type(), " on ", q.device());
    const bool alike = tensor.sym_size(0) == q.sym_size(0) && tensor.sym_size(1) == q.sym_size(1) &&
                       tensor.sym_size(3) == q.sym_size(3);
    TORCH_CHECK(alike, kName, ": ", name, " has shape ", tensor.sym_sizes(), " and q ", q.sym_sizes(),
                "; only their lengths may differ");
  }
  TORCH_CHECK(k.sym_size(2) == v.sym_size(2), kName, ": k has length ", k.sym_size(2), " and v ", v.sym_size(2));
  // Kernels are compiled for each head_dim: a graph is for one, too.
  const int64_t head_dim = q.sym_size(3).guard_int(__FILE__, __LINE__);
  TORCH_CHECK(kernels::flash_attention_takes(head_dim), kName, ": head_dim is ", head_dim,
              "; it must be 32, 64 or 128");
}

/// The last of `rungs`, or the last of float's, which are on CUDA cores, where the device lacks the tensor cores that
/// the others need. The rungs for compute capability 9.0 alone are not among them: no GPU has run them yet, and the
/// operator takes none before one has.
int last_of(int rungs, [[maybe_unused]] int of_float, [[maybe_unused]] const Tensor& q) {
#ifdef TENFOLD_WITH_CUDA
  if (q.is_cuda() && at::cuda::getDeviceProperties(q.get_device())->major < 8) return of_float - 1;
#endif
  return rungs - 1;
}

template <class T>
int forward_rung(const Tensor& q, [[maybe_unused]] const kernels::AttentionShape& shape) {
  const int last = last_of(kernels::kFlashAttentionRungs<T>, kernels::kFlashAttentionRungs<float>, q);
#ifdef TENFOLD_WITH_CUDA
  if (q.is_cuda())
    return std::min(last, kernels::flash_attention_rung<T>(
                              shape, at::cuda::getDeviceProperties(q.get_device())->multiProcessorCount));
#endif
  return last;
}

struct FlashAttention : torch::autograd::Function<FlashAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& queries, const Tensor& keys, const Tensor& values,
                        bool causal) {
    const Tensor q = queries.contiguous(), k = keys.contiguous(), v = values.contiguous();
    const auto [out, logsumexp] = flash_attention_forward(q, k, v, causal);
    context->save_for_backward({q, k, v, out, logsumexp});
    context->saved_data["causal"] = causal;
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    const variable_list saved = context->get_saved_variables();
    const auto [grad_q, grad_k, grad_v] = flash_attention_backward(gradients[0], saved[0], saved[1], saved[2], saved[3],
                                                                   saved[4], context->saved_data["causal"].toBool());
    return {grad_q, grad_k, grad_v, Tensor()};
  }
};

}  // namespace

std::tuple<Tensor, Tensor> flash_attention_forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                                   bool causal) {
  check(queries, keys, values);
  const Tensor q = queries.contiguous(), k = keys.contiguous(), v = values.contiguous(), out = torch::empty_like(q);
  const Tensor logsumexp =
      at::empty_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2)}, q.options().dtype(torch::kFloat));
  if (q.is_meta()) return {out, logsumexp};
  const kernels::AttentionShape shape = attention_shape(q, k, causal);
  launch_where_they_are(
      {{"q", q}, {"k", k}, {"v", v}, {"out", out}, {"logsumexp", logsumexp}},
      [&](auto stream, auto value) {
        using T = decltype(value);
        kernels::flash_attention<T>(stream, data_of<T>(out), data_of<float>(logsumexp), nullptr, data_of<T>(q),
                                    data_of<T>(k), data_of<T>(v), shape, forward_rung<T>(q, shape));
      },
      kernels::attention_flops(shape, 2));
  return {out, logsumexp};
}

std::tuple<Tensor, Tensor, Tensor> flash_attention_backward(const Tensor& gradient, const Tensor& queries,
                                                            const Tensor& keys, const Tensor& values,
                                                            const Tensor& result, const Tensor& logsumexp,
                                                            bool causal) {
  check(queries, keys, values);
  check_gradient(kName, gradient, queries);
  check_sizes(kName, "the result", result, queries.sym_sizes(), queries.scalar_type(), queries);
  check_sizes(kName, "the logsumexp", logsumexp, queries.sym_sizes().slice(0, 3), at::kFloat, queries);
  const Tensor q = queries.contiguous(), k = keys.contiguous(), v = values.contiguous(), out = result.contiguous();
  const Tensor grad = gradient.contiguous(), sums = logsumexp.contiguous(), workspace = torch::empty_like(sums);
  const Tensor grad_q = torch::empty_like(q), grad_k = torch::empty_like(k), grad_v = torch::empty_like(v);
  if (q.is_meta()) return {grad_q, grad_k, grad_v};
  const kernels::AttentionShape shape = attention_shape(q, k, causal);
  launch_where_they_are(
      {{"q", q},
       {"k", k},
       {"v", v},
       {"out", out},
       {"logsumexp", sums},
       {"grad_out", grad},
       {"grad_q", grad_q},
       {"grad_k", grad_k},
       {"grad_v", grad_v},
       {"workspace", workspace}},
      [&](auto stream, auto value) {
        using T = decltype(value);
        kernels::flash_attention_backward<T>(
            stream, data_of<T>(grad_q), data_of<T>(grad_k), data_of<T>(grad_v), data_of<float>(workspace),
            data_of<T>(grad), data_of<T>(q), data_of<T>(k), data_of<T>(v), data_of<T>(out), data_of<float>(sums), shape,
            last_of(kernels::kFlashAttentionBackwardRungs<T>, kernels::kFlashAttentionBackwardRungs<float>, q));
      },
      kernels::attention_flops(shape, 7));  // five by the formula; each of the two kernels makes scores and dP
  return {grad_q, grad_k, grad_v};
}

Tensor flash_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  check(q, k, v);
  return FlashAttention::apply(q, k, v, causal);
}

Tensor reference::flash_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0, causal);
}

}  // namespace tenfold::fused
