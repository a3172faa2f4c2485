#pragma once
// Causal attention of packed sequences, four ways: no token sees another sequence, and nobody computes with padding but
// the second.

#include <torch/torch.h>

#include <functional>
#include <tuple>
#include <vector>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

#include "packing.h"

namespace tenfold::inline lesson_15 {

/// Queries, keys and values of packed rows, (total, 3, H, D), to what each row gets, (total, H * D). Differentiable.
using PackedAttention = std::function<torch::Tensor(const torch::Tensor& qkv, const Packing& packing)>;

/// ATen's operator for each sequence alone. What it gets are views, so nothing is copied on the way in; a sequence of T
/// tokens costs T * T pairs, whatever its neighbours have. The price is an operator for each sequence.
inline torch::Tensor attention_of_each(const torch::Tensor& qkv, const Packing& packing) {
  std::vector<torch::Tensor> attended;
  for (const torch::Tensor& rows : qkv.split_with_sizes(packing.lengths)) {  // (T, 3, H, D)
    const auto parts = rows.permute({1, 2, 0, 3}).unsqueeze(1).unbind(0);    // three of (1, H, T, D)
    attended.push_back(at::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{},
                                                        /*dropout_p=*/0.0,
                                                        /*is_causal=*/true)
                           .transpose(1, 2));  // (1, T, H, D)
  }
  return torch::cat(attended, 1).reshape({packing.total(), -1});
}

/// Back to a padded batch for the attention alone: one operator, but T * T pairs of the longest sequence for every
/// sequence. Padding stands behind the text, where a causal mask lets no token of it look.
inline torch::Tensor attention_padded(const torch::Tensor& qkv, const Packing& packing) {
  const auto parts = unpack_rows(qkv, packing).permute({2, 0, 3, 1, 4}).unbind(0);  // three of (N, H, T, D)
  const torch::Tensor attended = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{},
                                                                  /*dropout_p=*/0.0, /*is_causal=*/true);
  return pack_rows(attended.transpose(1, 2).flatten(2), packing);
}

/// Numbers from one row of such a mask to the next. CUDA's kernel wants rows that begin at multiples of 8: of any other
/// mask ATen makes a padded copy in each layer, and autograd keeps all of them.
inline int64_t mask_stride(int64_t total, torch::Device device) {
  return device.is_cuda() ? (total + 7) / 8 * 8 : total;
}

/// Which pairs a packed row of attention may have: (total, total), 0 where row i may look at row j and -infinity
/// elsewhere, that is at later rows and at other sequences.
inline torch::Tensor block_diagonal_mask(const Packing& packing) {
  const torch::Tensor& sequence = packing.sequence_of;
  const int64_t total = packing.total(), stride = mask_stride(total, sequence.device());
  const torch::Tensor may_see = (sequence.unsqueeze(1) == sequence.unsqueeze(0)).tril();
  return torch::zeros({total, stride}, sequence.options().dtype(torch::kFloat))
      .narrow(1, 0, total)
      .masked_fill_(may_see.logical_not(), -INFINITY);
}

/// All sequences as one, with that mask: one operator, and total * total pairs, most of them masked. Throws c10::Error
/// for a packing without a mask.
inline torch::Tensor attention_masked(const torch::Tensor& qkv, const Packing& packing) {
  TORCH_CHECK(packing.mask.defined(), "attention_masked: packing.mask is not set; see block_diagonal_mask");
  const auto parts = qkv.permute({1, 2, 0, 3}).unsqueeze(1).unbind(0);  // three of (1, H, total, D)
  return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], packing.mask)
      .transpose(1, 2)
      .reshape({qkv.size(0), -1});
}

/// Whether attention_in_one_kernel() takes bfloat16 on a device: on a GPU from compute capability 8.0 on.
inline bool packs_bfloat16([[maybe_unused]] torch::Device device) {
#ifdef TENFOLD_WITH_CUDA
  if (device.is_cuda()) return at::cuda::getDeviceProperties(device.index())->major >= 8;
#endif
  return true;
}

/// Whether FlashAttention takes packed rows of queries, keys and values (total, 3, H, D): on CUDA from compute
/// capability 8.0 on, in 16 bits, with heads of a multiple of 8 numbers, at most 256. Heads of 193 to 224 it cannot
/// train on 8.6, 8.9 and 12.x; they are left out on all cards.
inline bool flash_takes_packed(const torch::Tensor& qkv) {
  const auto type = qkv.scalar_type();
  const int64_t width = qkv.size(-1);
  return qkv.is_cuda() && (type == torch::kHalf || type == torch::kBFloat16) && packs_bfloat16(qkv.device()) &&
         width % 8 == 0 && (width <= 192 || (width > 224 && width <= 256));
}

/// The same pairs as attention_of_each in one kernel, which reads where sequences begin: FlashAttention's where it
/// takes them, else the memory-efficient one, which takes 32 bits, too. CUDA only. Do not call it where
/// packs_bfloat16() says no.
inline torch::Tensor attention_in_one_kernel(const torch::Tensor& qkv, const Packing& packing) {
  const int64_t longest = packing.longest();
  if (flash_takes_packed(qkv)) {
    const auto parts = qkv.unbind(1);  // three of (total, H, D)
    const auto result = at::_flash_attention_forward(parts[0], parts[1], parts[2], packing.cu_seqlens,
                                                     packing.cu_seqlens, longest, longest, /*dropout_p=*/0.0,
                                                     /*is_causal=*/true, /*return_debug_mask=*/false);
    return std::get<0>(result).flatten(1);
  }
  constexpr int64_t kCausal = 1;                  // of CUTLASS's masks: causal, counted from the first key
  const auto parts = qkv.unsqueeze(0).unbind(2);  // three of (1, total, H, D)
  const auto result = at::_efficient_attention_forward(parts[0], parts[1], parts[2], /*bias=*/{}, packing.cu_seqlens,
                                                       packing.cu_seqlens, longest, longest, /*dropout_p=*/0.0, kCausal,
                                                       /*compute_log_sumexp=*/true);
  return std::get<0>(result).reshape({packing.total(), -1});
}

}  // namespace tenfold::inline lesson_15
