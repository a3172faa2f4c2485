// installs as <tenfold/mup.h>
#pragma once
// Maximal update parametrisation (muP): initial weights and learning rates by which a model of any width has the best
// learning rate of a narrow one, its base.
//
//   Mlp base(16), model(256);                    the same layers; only widths differ
//   mup_initialise(*model, *base);
//   const torch::optim::AdamOptions options(rate);
//   torch::optim::Adam adam(mup_groups(*model, *base, options), options);
//
// For linear layers, convolutions, embeddings and norms. Attention needs a scale of 1 / d instead of 1 / sqrt(d) of a
// head's features, which a model must write itself. Weight decay is as it is given: AdamW multiplies it with the rate.
// Source: G. Yang et al., Tensor Programs V, 2022, arXiv:2203.03466, table 3; relative to the base, at which all is as
// it was. For SGD the rates follow G. Yang, J. Simon, J. Bernstein, 2023, arXiv:2310.17813: fan_out / fan_in.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenfold {

/// How many times wider than in the base a parameter is, on the side of its inputs and of its outputs. A vector's
/// values have one input each.
struct MupWidths {
  double in = 1, out = 1;

  double adam_rate() const { return 1 / in; }
  double sgd_rate() const { return out / in; }
  /// A layer that ends the width, whose outputs are as many as the base's: its weights begin smaller by this than a
  /// layer's usual ones, whose variance is 1 / fan_in; else the logits' first updates would grow with the width.
  double initial_scale() const { return out == 1 ? 1 / std::sqrt(in) : 1; }
  bool operator==(const MupWidths&) const = default;
};

namespace mup_detail {

inline double times(int64_t size, int64_t base) { return static_cast<double>(size) / static_cast<double>(base); }

struct MupParameter {
  torch::Tensor parameter;
  MupWidths widths;
};

inline void collect(torch::nn::Module& model, torch::nn::Module& base, const std::string& path,
                    std::vector<MupParameter>& found) {
  const auto own = model.named_parameters(/*recurse=*/false), of_base = base.named_parameters(/*recurse=*/false);
  TORCH_CHECK_VALUE(own.size() == of_base.size(), "muP: '", path, "' has other parameters than in the base");
  const bool embedding = dynamic_cast<torch::nn::EmbeddingImpl*>(&model) != nullptr;
  for (const auto& item : own) {
    const torch::Tensor* const narrow = of_base.find(item.key());
    TORCH_CHECK_VALUE(narrow != nullptr && narrow->dim() == item.value().dim(), "muP: parameter '", path, item.key(),
                      "' is not in the base, or has other dimensions there");
    MupWidths widths;
    if (item.value().dim() >= 1) widths.out = times(item.value().size(0), narrow->size(0));
    if (item.value().dim() >= 2) widths.in = times(item.value().size(1), narrow->size(1));
    if (embedding) std::swap(widths.in, widths.out);  // (V, D): picks one of V rows and gives D outputs
    const auto same = [&](const MupParameter& other) { return other.parameter.is_same(item.value()); };
    const auto tied = std::find_if(found.begin(), found.end(), same);
    TORCH_CHECK_VALUE(tied == found.end() || tied->widths == widths, "muP: parameter '", path, item.key(),
                      "' is tied to a layer whose other side is wide, as an output layer to an embedding, and would "
                      "need two rates; give the two layers weights of their own");
    if (tied == found.end()) found.push_back({item.value(), widths});
  }
  const auto children = model.named_children(), base_children = base.named_children();
  TORCH_CHECK_VALUE(children.size() == base_children.size(), "muP: '", path, "' has other parts than in the base");
  for (const auto& child : children) {
    const auto* const of_same_name = base_children.find(child.key());
    TORCH_CHECK_VALUE(of_same_name != nullptr, "muP: part '", path, child.key(), "' is not in the base");
    collect(*child.value(), **of_same_name, path + child.key() + ".", found);
  }
}

/// In the model's order, a tied one once. Throws c10::ValueError, with the name, where the base is another model, and
/// for a parameter that is tied between an embedding and an output layer.
inline std::vector<MupParameter> parameters(torch::nn::Module& model, torch::nn::Module& base) {
  std::vector<MupParameter> found;
  collect(model, base, "", found);
  return found;
}

}  // namespace mup_detail

/// Once, after the layers have initialised themselves with variances of 1 / fan_in, as LibTorch's do. Throws
/// c10::ValueError where the base is another model, and for an output layer that is tied to an embedding.
inline void mup_initialise(torch::nn::Module& model, torch::nn::Module& base) {
  const torch::NoGradGuard no_gradients;
  for (auto& [parameter, widths] : mup_detail::parameters(model, base)) {
    if (parameter.dim() >= 2) parameter.mul_(widths.initial_scale());
  }
}

/// A group for each parameter, in the model's order and a tied one once: the options with a rate of its own. `Options`
/// are those of SGD, or of Adam and AdamW, whose updates do not grow with the gradient. Throws c10::ValueError as
/// mup_initialise().
template <class Options>
std::vector<torch::optim::OptimizerParamGroup> mup_groups(torch::nn::Module& model, torch::nn::Module& base,
                                                          const Options& options) {
  constexpr bool kSgd = std::is_same_v<Options, torch::optim::SGDOptions>;
  static_assert(kSgd || std::is_same_v<Options, torch::optim::AdamOptions> ||
                std::is_same_v<Options, torch::optim::AdamWOptions>);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const auto& [parameter, widths] : mup_detail::parameters(model, base)) {
    auto own = std::make_unique<Options>(options);
    own->lr(options.lr() * (kSgd ? widths.sgd_rate() : widths.adam_rate()));
    groups.emplace_back(std::vector<torch::Tensor>{parameter}, std::move(own));
  }
  return groups;
}

}  // namespace tenfold
