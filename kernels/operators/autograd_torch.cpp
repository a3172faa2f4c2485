// Derivatives of the operators in operators_torch.cpp. Both passes are asked of the dispatcher, not called: so
// torch.compile, which runs them on tensors without values, sees an operator in each place and puts it into its graph.

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <string>
#include <string_view>
#include <tuple>

namespace tenfold::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Below = at::AutoDispatchBelowADInplaceOrView;
using In = const Tensor&;
using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;

/// An operator's entry in the dispatcher. Its types are those of the schema.
template <class Signature>
c10::TypedOperatorHandle<Signature> entry(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// --- over rows -------------------------------------------------------------------------------------------------------

Triple layer_norm_forward(In input, In weight, In bias, double epsilon) {
  static const auto op = entry<Triple(In, In, In, double)>("tenfold::layer_norm_forward");
  return op.call(input, weight, bias, epsilon);
}

struct LayerNorm : Function<LayerNorm> {
  static Tensor forward(AutogradContext* context, In input, In weight, In bias, double epsilon) {
    const Below below;
    const Tensor x = input.contiguous(), w = weight.contiguous();
    const auto [out, mean, rstd] = layer_norm_forward(x, w, bias, epsilon);
    context->save_for_backward({x, w, mean, rstd});
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto op = entry<Triple(In, In, In, In, In)>("tenfold::layer_norm_backward");
    const variable_list saved = context->get_saved_variables();
    const auto [of_input, of_weight, of_bias] = op.call(gradients[0], saved[0], saved[1], saved[2], saved[3]);
    return {of_input, of_weight, of_bias, Tensor()};
  }
};

Pair rms_norm_forward(In input, In weight, double epsilon) {
  static const auto op = entry<Pair(In, In, double)>("tenfold::rms_norm_forward");
  return op.call(input, weight, epsilon);
}

struct RmsNorm : Function<RmsNorm> {
  static Tensor forward(AutogradContext* context, In input, In weight, double epsilon) {
    const Below below;
    const Tensor x = input.contiguous(), w = weight.contiguous();
    const auto [out, rstd] = rms_norm_forward(x, w, epsilon);
    context->save_for_backward({x, w, rstd});
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto op = entry<Pair(In, In, In, In)>("tenfold::rms_norm_backward");
    const variable_list saved = context->get_saved_variables();
    const auto [of_input, of_weight] = op.call(gradients[0], saved[0], saved[1], saved[2]);
    return {of_input, of_weight, Tensor()};
  }
};

struct Softmax : Function<Softmax> {
  static Tensor forward(AutogradContext* context, In input) {
    static const auto op = entry<Tensor(In)>("tenfold::softmax");
    const Below below;
    const Tensor out = op.call(input);
    context->save_for_backward({out});
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto op = entry<Tensor(In, In)>("tenfold::softmax_backward");
    return {op.call(gradients[0], context->get_saved_variables()[0])};
  }
};

Pair cross_entropy_forward(In logits, In targets, int64_t ignore_index) {
  static const auto op = entry<Pair(In, In, int64_t)>("tenfold::cross_entropy_forward");
  return op.call(logits, targets, ignore_index);
}

struct CrossEntropy : Function<CrossEntropy> {
  static Tensor forward(AutogradContext* context, In logits, In targets, int64_t ignore_index) {
    const Below below;
    const auto [loss, of_logits] = cross_entropy_forward(logits, targets, ignore_index);
    context->save_for_backward({of_logits});
    return loss;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto op = entry<Tensor(In, In)>("tenfold::cross_entropy_backward");
    return {op.call(gradients[0], context->get_saved_variables()[0]), Tensor(), Tensor()};
  }
};

// --- over values -----------------------------------------------------------------------------------------------------

struct BiasGelu : Function<BiasGelu> {
  static Tensor forward(AutogradContext* context, In input, In bias, std::string_view approximate) {
    static const auto op = entry<Tensor(In, In, std::string_view)>("tenfold::bias_gelu");
    const Below below;
    const Tensor x = input.contiguous(), b = bias.contiguous();
    context->save_for_backward({x, b});
    context->saved_data["approximate"] = std::string(approximate);
    return op.call(x, b, approximate);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto op = entry<Pair(In, In, In, std::string_view)>("tenfold::bias_gelu_backward");
    const variable_list saved = context->get_saved_variables();
    const auto [of_input, of_bias] =
        op.call(gradients[0], saved[0], saved[1], context->saved_data["approximate"].toStringView());
    return {of_input, of_bias, Tensor()};
  }
};

Tensor turned(In input, In cosines, In sines, bool inverse) {
  static const auto op = entry<Tensor(In, In, In, bool)>("tenfold::rope");
  return op.call(input, cosines, sines, inverse);
}

struct Rope : Function<Rope> {
  static Tensor forward(AutogradContext* context, In input, In cosines, In sines, bool inverse) {
    const Below below;
    context->save_for_backward({cosines, sines});
    context->saved_data["inverse"] = inverse;
    return turned(input, cosines, sines, inverse);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list tables = context->get_saved_variables();
    const bool back = !context->saved_data["inverse"].toBool();
    return {turned(gradients[0], tables[0], tables[1], back), Tensor(), Tensor(), Tensor()};
  }
};

// --- copies ----------------------------------------------------------------------------------------------------------

struct Embedding : Function<Embedding> {
  static Tensor forward(AutogradContext* context, In weight, In ids) {
    static const auto op = entry<Tensor(In, In)>("tenfold::embedding");
    const Below below;
    const Tensor out = op.call(weight, ids);  // checks what is read below
    context->save_for_backward({ids});
    context->saved_data["vocabulary"] = weight.sym_size(0);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto op = entry<Tensor(In, In, c10::SymInt)>("tenfold::embedding_backward");
    return {op.call(gradients[0], context->get_saved_variables()[0], context->saved_data["vocabulary"].toSymInt()),
            Tensor()};
  }
};

Tensor packed(In padded, In cu_seqlens, const c10::SymInt& total) {
  static const auto op = entry<Tensor(In, In, c10::SymInt)>("tenfold::pack");
  return op.call(padded, cu_seqlens, total);
}

Tensor unpacked(In packed, In cu_seqlens, const c10::SymInt& length, double padding) {
  static const auto op = entry<Tensor(In, In, c10::SymInt, double)>("tenfold::unpack");
  return op.call(packed, cu_seqlens, length, padding);
}

struct Pack : Function<Pack> {
  static Tensor forward(AutogradContext* context, In padded, In cu_seqlens, const c10::SymInt& total) {
    const Below below;
    const Tensor out = packed(padded, cu_seqlens, total);
    context->save_for_backward({cu_seqlens});
    context->saved_data["length"] = padded.sym_size(1);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {unpacked(gradients[0], context->get_saved_variables()[0], context->saved_data["length"].toSymInt(), 0),
            Tensor(), Tensor()};
  }
};

struct Unpack : Function<Unpack> {
  static Tensor forward(AutogradContext* context, In packed_rows, In cu_seqlens, const c10::SymInt& length,
                        double padding) {
    const Below below;
    const Tensor out = unpacked(packed_rows, cu_seqlens, length, padding);
    context->save_for_backward({cu_seqlens});
    context->saved_data["total"] = packed_rows.sym_size(0);
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {packed(gradients[0], context->get_saved_variables()[0], context->saved_data["total"].toSymInt()), Tensor(),
            Tensor(), Tensor()};
  }
};

// --- attention -------------------------------------------------------------------------------------------------------

Pair flash_attention_forward(In q, In k, In v, bool causal) {
  static const auto op = entry<Pair(In, In, In, bool)>("tenfold::flash_attention_forward");
  return op.call(q, k, v, causal);
}

struct FlashAttention : Function<FlashAttention> {
  static Tensor forward(AutogradContext* context, In queries, In keys, In values, bool causal) {
    const Below below;
    const Tensor q = queries.contiguous(), k = keys.contiguous(), v = values.contiguous();
    const auto [out, logsumexp] = flash_attention_forward(q, k, v, causal);
    context->save_for_backward({q, k, v, out, logsumexp});
    context->saved_data["causal"] = causal;
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto op = entry<Triple(In, In, In, In, In, In, bool)>("tenfold::flash_attention_backward");
    const variable_list saved = context->get_saved_variables();
    const auto [of_q, of_k, of_v] =
        op.call(gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], context->saved_data["causal"].toBool());
    return {of_q, of_k, of_v, Tensor()};
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(tenfold, Autograd, library) {
  library.impl("layer_norm", [](In input, In weight, In bias, double epsilon) {
    return LayerNorm::apply(input, weight, bias, epsilon);
  });
  library.impl("rms_norm", [](In input, In weight, double epsilon) { return RmsNorm::apply(input, weight, epsilon); });
  library.impl("softmax", [](In input) { return Softmax::apply(input); });
  library.impl("cross_entropy", [](In logits, In targets, int64_t ignore_index) {
    return CrossEntropy::apply(logits, targets, ignore_index);
  });
  library.impl("bias_gelu", [](In input, In bias, std::string_view approximate) {
    return BiasGelu::apply(input, bias, approximate);
  });
  library.impl(
      "rope", [](In input, In cosines, In sines, bool inverse) { return Rope::apply(input, cosines, sines, inverse); });
  library.impl("embedding", [](In weight, In ids) { return Embedding::apply(weight, ids); });
  library.impl("pack",
               [](In padded, In cu_seqlens, c10::SymInt total) { return Pack::apply(padded, cu_seqlens, total); });
  library.impl("unpack", [](In packed_rows, In cu_seqlens, c10::SymInt length, double padding) {
    return Unpack::apply(packed_rows, cu_seqlens, length, padding);
  });
  library.impl("flash_attention", [](In q, In k, In v, bool causal) { return FlashAttention::apply(q, k, v, causal); });
  // These have no derivative: who differentiates twice is told so.
  for (const char* name : {"layer_norm_forward", "layer_norm_backward", "rms_norm_forward", "rms_norm_backward",
                           "softmax_backward", "cross_entropy_forward", "cross_entropy_backward", "bias_gelu_backward",
                           "embedding_backward", "flash_attention_forward", "flash_attention_backward", "adamw_"})
    library.impl(name, torch::autograd::autogradNotImplementedFallback());
}

// Where nothing is differentiated, on every kind of device: the first of a forward pass's results.
TORCH_LIBRARY_IMPL(tenfold, CompositeExplicitAutograd, library) {
  library.impl("layer_norm", [](In input, In weight, In bias, double epsilon) {
    return std::get<0>(layer_norm_forward(input, weight, bias, epsilon));
  });
  library.impl("rms_norm", [](In input, In weight, double epsilon) {
    return std::get<0>(rms_norm_forward(input, weight, epsilon));
  });
  library.impl("cross_entropy", [](In logits, In targets, int64_t ignore_index) {
    return std::get<0>(cross_entropy_forward(logits, targets, ignore_index));
  });
  library.impl("flash_attention",
               [](In q, In k, In v, bool causal) { return std::get<0>(flash_attention_forward(q, k, v, causal)); });
}

}  // namespace tenfold::fused
