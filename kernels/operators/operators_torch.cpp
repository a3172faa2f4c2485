// The kernels as operators of LibTorch's dispatcher, torch.ops.tenfold: what Python, torch.compile and exported
// programs know an operator by.
//
// A schema says what an operator takes, returns and changes. One function for each stands behind it on CUDA, on the CPU
// (the same kernel under the microscope: very slow, for tests) and on `meta`, where it makes the results and launches
// nothing: so the fake implementation, which torch.compile asks for shapes, cannot differ from the real one. What is
// checked holds for all three. Derivatives: autograd_torch.cpp.
//
// All of it is C++, although Python could register derivatives and fakes, too: who loads the library has everything,
// and an operator without its derivative does not exist; a program in C++ that loads an exported graph has it as well.
// Source: PyTorch, "Custom C++ and CUDA Operators".

#include <torch/library.h>
#include <torch/torch.h>

#include "kernels/adamw/adamw_torch.h"
#include "kernels/bias_gelu/bias_gelu_torch.h"
#include "kernels/cross_entropy/cross_entropy_torch.h"
#include "kernels/embedding/embedding_torch.h"
#include "kernels/flash_attention/flash_attention_torch.h"
#include "kernels/layer_norm/layer_norm_torch.h"
#include "kernels/pack/pack_torch.h"
#include "kernels/rms_norm/rms_norm_torch.h"
#include "kernels/rope/rope_torch.h"
#include "kernels/softmax/softmax_torch.h"

namespace tenfold::fused {
namespace {

using torch::Tensor;
using Pair = std::tuple<Tensor, Tensor>;

Gelu form_of(std::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh", "tenfold::bias_gelu: approximate is '", approximate,
              "'; it must be 'none' or 'tanh'");
  return approximate == "none" ? Gelu::exact : Gelu::tanh;
}

Tensor bias_gelu_of(const Tensor& input, const Tensor& bias, std::string_view approximate) {
  return bias_gelu_forward(input, bias, form_of(approximate));
}

Pair bias_gelu_backward_of(const Tensor& gradient, const Tensor& input, const Tensor& bias,
                           std::string_view approximate) {
  return bias_gelu_backward(gradient, input, bias, form_of(approximate));
}

Tensor embedding_backward_of(const Tensor& gradient, const Tensor& ids, c10::SymInt vocabulary) {
  return embedding_backward(gradient, ids, vocabulary);
}

Tensor rope_of(const Tensor& input, const Tensor& cosines, const Tensor& sines, bool inverse) {
  return rope_forward(input, {cosines, sines}, inverse);
}

Tensor pack_of(const Tensor& padded, const Tensor& cu_seqlens, c10::SymInt total) {
  return pack_forward(padded, cu_seqlens, total);
}

Tensor unpack_of(const Tensor& packed, const Tensor& cu_seqlens, c10::SymInt length, double padding) {
  return unpack_forward(packed, cu_seqlens, length, padding);
}

void adamw_of(at::TensorList parameters, at::TensorList averages, at::TensorList square_averages,
              at::TensorList gradients, int64_t step, double learning_rate, double beta1, double beta2, double epsilon,
              double weight_decay) {
  adamw_(parameters, averages, square_averages, gradients,
         {.learning_rate = learning_rate,
          .beta1 = beta1,
          .beta2 = beta2,
          .epsilon = epsilon,
          .weight_decay = weight_decay},
         step);
}

/// The passes, on one kind of device.
void implement(torch::Library& library) {
  library.impl("layer_norm_forward", TORCH_FN(layer_norm_forward));
  library.impl("layer_norm_backward", TORCH_FN(layer_norm_backward));
  library.impl("rms_norm_forward", TORCH_FN(rms_norm_forward));
  library.impl("rms_norm_backward", TORCH_FN(rms_norm_backward));
  library.impl("softmax", TORCH_FN(softmax_forward));
  library.impl("softmax_backward", TORCH_FN(softmax_backward));
  library.impl("bias_gelu", TORCH_FN(bias_gelu_of));
  library.impl("bias_gelu_backward", TORCH_FN(bias_gelu_backward_of));
  library.impl("cross_entropy_forward", TORCH_FN(cross_entropy_forward));
  library.impl("cross_entropy_backward", TORCH_FN(cross_entropy_backward));
  library.impl("embedding", TORCH_FN(embedding_forward));
  library.impl("embedding_backward", TORCH_FN(embedding_backward_of));
  library.impl("rope", TORCH_FN(rope_of));
  library.impl("flash_attention_forward", TORCH_FN(flash_attention_forward));
  library.impl("flash_attention_backward", TORCH_FN(flash_attention_backward));
  library.impl("pack", TORCH_FN(pack_of));
  library.impl("unpack", TORCH_FN(unpack_of));
  library.impl("adamw_", TORCH_FN(adamw_of));
}

}  // namespace

// An operator whose backward pass needs more than its result has three: NAME_forward returns all of it, NAME is the
// first of these, with a derivative.
TORCH_LIBRARY(tenfold, library) {
  library.def("layer_norm(Tensor input, Tensor weight, Tensor bias, float epsilon=1e-05) -> Tensor");
  library.def(
      "layer_norm_forward(Tensor input, Tensor weight, Tensor bias, float epsilon) -> (Tensor out, Tensor mean, "
      "Tensor rstd)");
  library.def(
      "layer_norm_backward(Tensor gradient, Tensor input, Tensor weight, Tensor mean, Tensor rstd) -> (Tensor, "
      "Tensor, Tensor)");
  library.def("rms_norm(Tensor input, Tensor weight, float epsilon=1e-05) -> Tensor");
  library.def("rms_norm_forward(Tensor input, Tensor weight, float epsilon) -> (Tensor out, Tensor rstd)");
  library.def("rms_norm_backward(Tensor gradient, Tensor input, Tensor weight, Tensor rstd) -> (Tensor, Tensor)");
  library.def("softmax(Tensor input) -> Tensor");
  library.def("softmax_backward(Tensor gradient, Tensor result) -> Tensor");
  library.def("bias_gelu(Tensor input, Tensor bias, str approximate='none') -> Tensor");
  library.def("bias_gelu_backward(Tensor gradient, Tensor input, Tensor bias, str approximate) -> (Tensor, Tensor)");
  library.def("cross_entropy(Tensor logits, Tensor targets, int ignore_index=-100) -> Tensor");
  library.def(
      "cross_entropy_forward(Tensor logits, Tensor targets, int ignore_index) -> (Tensor loss, Tensor of_logits)");
  library.def("cross_entropy_backward(Tensor gradient, Tensor of_logits) -> Tensor");
  library.def("embedding(Tensor weight, Tensor ids) -> Tensor");
  library.def("embedding_backward(Tensor gradient, Tensor ids, SymInt vocabulary) -> Tensor");
  library.def("rope(Tensor input, Tensor cosines, Tensor sines, bool inverse=False) -> Tensor");
  library.def("flash_attention(Tensor q, Tensor k, Tensor v, bool causal=False) -> Tensor");
  library.def("flash_attention_forward(Tensor q, Tensor k, Tensor v, bool causal) -> (Tensor out, Tensor logsumexp)");
  library.def(
      "flash_attention_backward(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor out, Tensor logsumexp, bool "
      "causal) -> (Tensor, Tensor, Tensor)");
  library.def("pack(Tensor padded, Tensor cu_seqlens, SymInt total) -> Tensor");
  library.def("unpack(Tensor packed, Tensor cu_seqlens, SymInt length, float padding=0) -> Tensor");
  library.def(
      "adamw_(Tensor(a!)[] parameters, Tensor(b!)[] averages, Tensor(c!)[] square_averages, Tensor[] gradients, int "
      "step, *, float learning_rate=0.001, float beta1=0.9, float beta2=0.999, float epsilon=1e-08, float "
      "weight_decay=0.01) -> ()");
}

TORCH_LIBRARY_IMPL(tenfold, CPU, library) { implement(library); }
TORCH_LIBRARY_IMPL(tenfold, CUDA, library) { implement(library); }
TORCH_LIBRARY_IMPL(tenfold, Meta, library) { implement(library); }

}  // namespace tenfold::fused
