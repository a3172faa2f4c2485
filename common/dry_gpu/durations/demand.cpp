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

void convolution(const Call& call, Demand& demand) {
  const at::Tensor input = tensor_at(call.arguments, 0), weight = tensor_at(call.arguments, 1),
                   output = tensor_at(call.results, 0);
  if (!weight.defined() || !output.defined()) return;
  const bool transposed = is_true(argument_of(call.schema, call.arguments, "transposed"));
  demand.flops = 2 * numbers(transposed ? input : output) * numbers(weight) / size_of(weight, 0);
  demand.type = input.scalar_type();
  demand.convolves = true;
}

/// As many products as the forward pass for each of the gradients that are asked for.
void convolution_backward(const Call& call, Demand& demand) {
  const at::Tensor gradient = tensor_at(call.arguments, 0), input = tensor_at(call.arguments, 1),
                   weight = tensor_at(call.arguments, 2);
  if (!gradient.defined() || !weight.defined()) return;
  const bool transposed = is_true(argument_of(call.schema, call.arguments, "transposed"));
  const double once = 2 * numbers(transposed ? input : gradient) * numbers(weight) / size_of(weight, 0);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (tensor_at(call.results, i).defined()) demand.flops += once;
  }
  demand.type = gradient.scalar_type();
  demand.convolves = true;
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
      {"aten::convolution_backward", convolution_backward},
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

Demand demand_of(const c10::FunctionSchema& schema, const Values& arguments, const Values& results) {
  Demand demand;
  demand.bytes = usual_bytes(schema, arguments, results);
  const auto formula = formulas().find(schema.name());
  if (formula != formulas().end()) formula->second({schema, arguments, results}, demand);
  return demand;
}

double seconds_of(const Demand& demand, const Rates& rates) {
  return seconds_of(demand.bytes, demand.flops, product_rate(demand, rates), rates);
}

}  // namespace tenfold::dry
