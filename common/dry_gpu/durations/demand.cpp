#include "common/dry_gpu/durations/demand.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "common/dry_gpu/below_autograd.h"
#include "common/dry_gpu/views.h"

namespace tenfold::dry {
namespace {

/// That lie in memory: a dimension of stride 0 has one element.
double bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda() || !tensor.has_storage()) return 0;
  double elements = 1;
  for (int64_t i = 0; i < tensor.dim(); ++i)
    elements *= tensor.stride(i) == 0 ? 1 : static_cast<double>(tensor.size(i));
  return elements * static_cast<double>(tensor.element_size());
}

double bytes_of(const c10::IValue& value) {
  double bytes = 0;
  for (const at::Tensor& tensor : tensors_of(value)) bytes += bytes_of(tensor);
  return bytes;
}

double bytes_of(const Values& values) {
  double bytes = 0;
  for (const c10::IValue& value : values) bytes += bytes_of(value);
  return bytes;
}

/// Results that are no argument again.
double bytes_of_new(const Values& arguments, const Values& results) {
  std::set<const void*> known;
  for (const c10::IValue& argument : arguments) {
    for (const at::Tensor& tensor : tensors_of(argument)) known.insert(tensor.unsafeGetTensorImpl());
  }
  double bytes = 0;
  for (const c10::IValue& result : results) {
    for (const at::Tensor& tensor : tensors_of(result)) {
      if (tensor.defined() && !known.contains(tensor.unsafeGetTensorImpl())) bytes += bytes_of(tensor);
    }
  }
  return bytes;
}

/// In place, and without a look at what was there.
const std::set<std::string>& only_write() {
  static const auto& names = *new std::set<std::string>{
      "aten::fill_",   "aten::zero_",      "aten::copy_",          "aten::normal_",       "aten::uniform_",
      "aten::random_", "aten::bernoulli_", "aten::_foreach_zero_", "aten::_foreach_copy_"};
  return names;
}

double usual_bytes(const c10::FunctionSchema& schema, const Values& arguments, const Values& results) {
  double bytes = bytes_of_new(arguments, results);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    const bool read = !written || (!schema.arguments()[i].is_out() && !only_write().contains(schema.name()));
    bytes += (written && read ? 2 : 1) * bytes_of(arguments[i]);
  }
  return bytes;
}

at::Tensor tensor_at(const Values& values, size_t i) {
  return i < values.size() && values[i].isTensor() ? values[i].toTensor() : at::Tensor();
}

double size_of(const at::Tensor& tensor, int64_t dimension) { return static_cast<double>(tensor.size(dimension)); }
double numbers(const at::Tensor& tensor) { return static_cast<double>(tensor.numel()); }

/// Of the schema's argument of this name.
c10::IValue argument_of(const c10::FunctionSchema& schema, const Values& arguments, const std::string& name) {
  const auto index = schema.argumentIndexWithName(name);
  return index && static_cast<size_t>(*index) < arguments.size() ? arguments[static_cast<size_t>(*index)]
                                                                 : c10::IValue();
}

struct Call {
  const c10::FunctionSchema& schema;
  const Values& arguments;
  const Values& results;
};

using Formula = std::function<void(const Call&, Demand&)>;

void product(const at::Tensor& left, const at::Tensor& right, Demand& demand) {
  if (!left.defined() || !right.defined() || left.dim() < 1 || right.dim() < 1) return;
  const double columns = right.dim() == 1 ? 1 : size_of(right, -1);
  demand.flops = 2 * numbers(left) * columns;
  demand.type = left.scalar_type();
}

/// (..., M, K) times (..., K, N), the two that stand at this place.
Formula product_of(size_t first) {
  return [first](const Call& call, Demand& demand) {
    product(tensor_at(call.arguments, first), tensor_at(call.arguments, first + 1), demand);
  };
}

bool is_true(const c10::IValue& value) { return value.isBool() && value.toBool(); }

/// Bytes that are read and written to put channels last before a convolution in tensor cores, and back behind it:
/// "convolutions implemented for Tensor Cores require NHWC layout", and of others cuDNN transposes input and output
/// ("Convolutional Layers User's Guide", docs.nvidia.com/deeplearning/performance/dl-performance-convolutional,
/// section "Tensor Layouts In Memory: NCHW vs NHWC"). A convolution of each channel by itself is LibTorch's own kernel
/// (conv_depthwise2d in ATen/native/cuda/DepthwiseConv2d.cu).
double reordered(const Call& call, std::initializer_list<at::Tensor> tensors) {
  const c10::IValue groups = argument_of(call.schema, call.arguments, "groups");
  double bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.dim() != 4) return 0;
    if (!tensor.is_contiguous(at::MemoryFormat::ChannelsLast)) bytes += 2 * bytes_of(tensor);
  }
  const at::Tensor weight = tensor_at(call.arguments, call.schema.name() == "aten::convolution_backward" ? 2 : 1);
  const bool of_each_channel = groups.isInt() && groups.toInt() > 1 && weight.defined() && weight.size(1) == 1;
  return of_each_channel ? 0 : bytes;
}

void convolution(const Call& call, Demand& demand) {
  const at::Tensor input = tensor_at(call.arguments, 0), weight = tensor_at(call.arguments, 1),
                   output = tensor_at(call.results, 0);
  if (!weight.defined() || !output.defined()) return;
  const bool transposed = is_true(argument_of(call.schema, call.arguments, "transposed"));
  demand.flops = 2 * numbers(transposed ? input : output) * numbers(weight) / size_of(weight, 0);
  demand.type = input.scalar_type();
  demand.convolves = true;
  demand.reordered = reordered(call, {input, weight, output});
}

/// Attention of (B, H, T, D): two products forward, five backward (Dao, "FlashAttention-2", 2023, section 3.1); of a
/// causal one half of the scores count. `query` is its place.
Formula attention(size_t query, double products) {
  return [=](const Call& call, Demand& demand) {
    const at::Tensor q = tensor_at(call.arguments, query), k = tensor_at(call.arguments, query + 1);
    if (!q.defined() || !k.defined() || q.dim() < 3) return;
    const bool causal = is_true(argument_of(call.schema, call.arguments, "is_causal"));
    demand.flops = products * 2 * numbers(q) * size_of(k, -2) * (causal ? 0.5 : 1);
    demand.type = q.scalar_type();
  };
}

/// The same with tokens before heads, (B, T, H, D), or packed, (N, H, D), where the longest text is an argument of its
/// own.
Formula attention_of_tokens(size_t query, double products, const char* longest) {
  return [=](const Call& call, Demand& demand) {
    const at::Tensor q = tensor_at(call.arguments, query), k = tensor_at(call.arguments, query + 1);
    if (!q.defined() || !k.defined() || q.dim() < 3) return;
    const c10::IValue most = argument_of(call.schema, call.arguments, longest);
    const double keys = most.isInt() ? static_cast<double>(most.toInt()) : size_of(k, 1);
    const c10::IValue mask_type = argument_of(call.schema, call.arguments, "custom_mask_type");
    const bool causal =
        is_true(argument_of(call.schema, call.arguments, "is_causal")) || (mask_type.isInt() && mask_type.toInt() > 0);
    demand.flops = products * 2 * numbers(q) * keys * (causal ? 0.5 : 1);
    demand.type = q.scalar_type();
  };
}

/// Reads the places and, for each, as much as it writes.
void lookup(const Call& call, Demand& demand) {
  double places = 0;
  for (size_t i = 1; i < call.arguments.size(); ++i) places += bytes_of(call.arguments[i]);
  demand.bytes = places + 2 * bytes_of(call.results);
}

/// Reads places and values, and what lies there, and writes there.
void put(const Call& call, Demand& demand) {
  const at::Tensor self = tensor_at(call.arguments, 0);
  double rest = 0, values = 0;
  for (size_t i = 1; i < call.arguments.size(); ++i) {
    rest += bytes_of(call.arguments[i]);
    const at::Tensor tensor = tensor_at(call.arguments, i);
    if (tensor.defined() && self.defined() && tensor.scalar_type() == self.scalar_type())
      values = std::max(values, bytes_of(tensor));
  }
  demand.bytes = rest + 2 * std::min(values, bytes_of(self));
  if (!call.schema.name().ends_with("_")) demand.bytes += 2 * bytes_of(self);  // into a copy
}

/// Gradients are written back only where they are unscaled.
void fused_update(const Call& call, Demand& demand) {
  if (argument_of(call.schema, call.arguments, "grad_scale").isNone())
    demand.bytes -= bytes_of(argument_of(call.schema, call.arguments, "grads"));
}

const std::map<std::string, Formula>& formulas() {
  static const auto& all = *new std::map<std::string, Formula>{
      {"aten::mm", product_of(0)},
      {"aten::bmm", product_of(0)},
      {"aten::mv", product_of(0)},
      {"aten::addmm", product_of(1)},
      {"aten::addmm_", product_of(1)},
      {"aten::_addmm_activation", product_of(1)},
      {"aten::baddbmm", product_of(1)},
      {"aten::baddbmm_", product_of(1)},
      {"aten::addmv", product_of(1)},
      {"aten::_scaled_mm", product_of(0)},
      {"aten::_int_mm", product_of(0)},
      {"aten::_grouped_mm", product_of(0)},
      {"aten::_scaled_grouped_mm", product_of(0)},
      {"aten::convolution", convolution},
      {"aten::cudnn_convolution", convolution},
      {"aten::_scaled_dot_product_flash_attention", attention(0, 2)},
      {"aten::_scaled_dot_product_efficient_attention", attention(0, 2)},
      {"aten::_scaled_dot_product_cudnn_attention", attention(0, 2)},
      {"aten::_scaled_dot_product_flash_attention_backward", attention(1, 5)},
      {"aten::_scaled_dot_product_efficient_attention_backward", attention(1, 5)},
      {"aten::_scaled_dot_product_cudnn_attention_backward", attention(1, 5)},
      {"aten::_flash_attention_forward", attention_of_tokens(0, 2, "max_k")},
      {"aten::_flash_attention_backward", attention_of_tokens(1, 5, "max_k")},
      {"aten::_efficient_attention_forward", attention_of_tokens(0, 2, "max_seqlen_k")},
      {"aten::_efficient_attention_backward", attention_of_tokens(1, 5, "max_seqlen_k")},
      {"aten::_fused_adamw_", fused_update},
      {"aten::_fused_adam_", fused_update},
      {"aten::_fused_sgd_", fused_update},
      {"aten::embedding", lookup},
      {"aten::index", lookup},
      {"aten::index_select", lookup},
      {"aten::gather", lookup},
      {"aten::take", lookup},
      {"aten::index_put_", put},
      {"aten::_index_put_impl_", put},
      {"aten::index_put", put},
      {"aten::index_add_", put},
      {"aten::index_add", put},
      {"aten::scatter_", put},
      {"aten::scatter_add_", put},
  };
  return all;
}

/// The gradients of input and weight are two calls of cuDNN, each of which reads that of the output; the bias's is a
/// sum over it (convolution_backward in ATen/native/Convolution.cpp, raw_cudnn_convolution_backward_{input,weight}_out
/// in ATen/native/cudnn/ConvShared.cpp). Each of the two has as many products as the forward pass.
std::vector<Demand> convolution_backward(const Call& call) {
  const at::Tensor gradient = tensor_at(call.arguments, 0), input = tensor_at(call.arguments, 1),
                   weight = tensor_at(call.arguments, 2);
  if (!gradient.defined() || !weight.defined()) return {};
  const bool transposed = is_true(argument_of(call.schema, call.arguments, "transposed"));
  const double flops = 2 * numbers(transposed ? input : gradient) * numbers(weight) / size_of(weight, 0);
  std::vector<Demand> kernels;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const at::Tensor result = tensor_at(call.results, i), &other = i == 0 ? weight : input;
    if (!result.defined()) continue;
    kernels.push_back({.bytes = bytes_of(gradient) + bytes_of(other) + bytes_of(result),
                       .flops = flops,
                       .type = gradient.scalar_type(),
                       .convolves = true,
                       .reordered = reordered(call, {gradient, other, result})});
  }
  if (const at::Tensor bias = tensor_at(call.results, 2); bias.defined())
    kernels.push_back({.bytes = bytes_of(gradient) + bytes_of(bias)});
  return kernels;
}

/// What a normalisation reads a second time: no number of a channel (a row, a group) can be written before all of it
/// has been read, and the gradients of weight and bias are kernels of their own.
double read_again(const Call& call) {
  const std::string& name = call.schema.name();
  const double first = bytes_of(tensor_at(call.arguments, 0)), both = first + bytes_of(tensor_at(call.arguments, 1));
  // Statistics, then normalisation (ATen/native/cuda/Normalization.cuh: batch_norm_collect_statistics_kernel and
  // batch_norm_transform_input_kernel; group_norm_kernel.cu: RowwiseMomentsCUDAKernel and an elementwise kernel).
  if (name == "aten::_batch_norm_with_update" || name == "aten::native_group_norm") return first;
  if (name == "aten::cudnn_batch_norm" || name == "aten::native_batch_norm" || name == "aten::_native_batch_norm_legit")
    return is_true(argument_of(call.schema, call.arguments, "training")) ? first : 0;
  // Two sums over both, then the gradient (Normalization.cuh: batch_norm_backward_kernel; group_norm_kernel.cu:
  // ComputeInternalGradientsCUDAKernel and an elementwise kernel).
  if (name == "aten::cudnn_batch_norm_backward" || name == "aten::native_batch_norm_backward" ||
      name == "aten::batch_norm_backward" || name == "aten::native_group_norm_backward")
    return both;
  // A row stays in the SM; weight and bias have a kernel of their own (layer_norm_kernel.cu:
  // layer_norm_grad_input_kernel and GammaBetaBackwardCUDAKernel).
  if (name == "aten::native_layer_norm_backward" || name == "aten::_fused_rms_norm_backward")
    return tensor_at(call.results, 0).defined() && tensor_at(call.results, 1).defined() ? both : 0;
  return 0;
}

double product_rate(const Demand& demand, const Rates& rates) {
  switch (demand.type) {
    case at::kHalf:
      return rates.half;
    case at::kBFloat16:
      return rates.bfloat16;
    case at::kFloat: {
      const at::Context& flags = at::globalContext();
      const bool rounds = demand.convolves ? flags.allowTF32CuDNN() : flags.allowTF32CuBLAS();
      return rounds && rates.tf32 > 0 ? rates.tf32 : rates.fp32;
    }
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2:
    case at::kChar:
      return 2 * rates.half;
    default:
      return rates.fp32 / 2;  // float64 on the cards of data centres; others have less
  }
}

}  // namespace

std::vector<Demand> demands_of(const c10::FunctionSchema& schema, const Values& arguments, const Values& results) {
  const Call call{schema, arguments, results};
  if (schema.name() == "aten::convolution_backward") return convolution_backward(call);
  Demand demand;
  demand.bytes = usual_bytes(schema, arguments, results);
  const auto formula = formulas().find(schema.name());
  if (formula != formulas().end()) formula->second(call, demand);
  demand.again = read_again(call);
  return {demand};
}

double seconds_of(const Demand& demand, const Rates& rates) {
  const double bytes = demand.bytes + (demand.again > rates.l2_bytes ? demand.again : 0),
               rate = product_rate(demand, rates);
  const double seconds = seconds_of(bytes, demand.flops, rate, rates);
  if (demand.reordered == 0 || rate <= rates.fp32) return seconds;
  // cuDNN can leave the tensor cores alone.
  return std::min(demand.reordered / rates.bytes_per_s + seconds, seconds_of(bytes, demand.flops, rates.fp32, rates));
}

double seconds_of(const std::vector<Demand>& kernels, const Rates& rates) {
  double seconds = 0;
  for (const Demand& demand : kernels) seconds += seconds_of(demand, rates);
  return seconds;
}

}  // namespace tenfold::dry
