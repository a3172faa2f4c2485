#pragma once
// What lesson 54 trains: the GPT in one process, or a rank's part of it.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "clip_sharded.h"
#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "common/models/gpt_batches.h"
#include "settings.h"
#include "tensor_parallel.h"
#include "vocabulary_parallel.h"

namespace tenfold::inline lesson_54 {

/// Takes classes off a model that has more.
inline void cut_vocabulary(GptImpl& model, int64_t vocabulary) {
  if (vocabulary == model.options.vocabulary()) return;
  for (torch::Tensor* weight : {&model.tokens->weight, &model.head->weight})
    weight->set_data(weight->detach().narrow(0, 0, vocabulary).clone());
}

/// The whole model in one process, with the setting's vocabulary.
inline std::shared_ptr<GptTraining> whole_model(const Trial& trial) {
  const auto loss = [](GptImpl& model, const torch::Tensor& h, const torch::Tensor& targets) {
    const torch::Tensor logits = model.logits(h).flatten(0, -2).to(torch::kFloat);
    return torch::nn::functional::cross_entropy(logits, targets.flatten());
  };
  auto training = std::make_shared<GptTraining>(trial, GptParts{.loss = loss});
  cut_vocabulary(*training->model, vocabulary_of(training->model->options, trial.get(kVocabulary)));
  return training;
}

/// This rank's place along "dp": a group of one, or none, where the mesh has no such dimension.
inline Mesh::Dimension data_parallel_place(const Trial& trial) {
  Mesh::Dimension place{.name = kDataParallel, .group = {}};
  for (const Mesh::Dimension& dimension : trial.mesh.dimensions()) {
    if (dimension.name == kDataParallel) place = dimension;
  }
  TORCH_CHECK_VALUE(place.size == trial.get(kDataRanks), "setting data_ranks=", trial.get(kDataRanks), ", and ",
                    place.size, " ranks along dp");
  return place;
}

/// Skips what the ranks cannot share.
inline void skip_unless_divisible(const Trial& trial, const GptOptions& options, int64_t ranks, int64_t data_ranks) {
  const auto divides = [&](int64_t number, int64_t of, const std::string& what) {
    if (of % number != 0) trial.skip(std::to_string(number) + " ranks do not divide " + what);
  };
  divides(ranks, options.heads, "the heads");
  divides(data_ranks, options.batch, "the batch");
  divides(ranks, options.batch / data_ranks * options.length, "the tokens");
}

/// What goes wrong in other people's programs.
enum class Mistake {
  none,
  norm_not_summed,     ///< gradients of what each rank uses for its own tokens alone are not summed over the ranks
  bias_on_every_rank,  ///< a row-parallel layer's bias is added before the sum
  padding_counted,     ///< rows that fill the vocabulary up are classes
  norm_of_own_part     ///< gradients are clipped by the norm of a rank's own
};

/// How a GPT is divided.
struct Division {
  TensorParallel how = TensorParallel();
  bool vocabulary = false;  ///< embedding and head, too; else every rank has both whole
  Mistake mistake = Mistake::none;
};

/// A rank's part of a block: its heads, and its part of the inner layer.
struct ParallelBlockImpl : torch::nn::Module {
  ParallelBlockImpl(GptBlockImpl& whole, const Division& division)
      : norm1(whole.norm1),
        norm2(whole.norm2),
        qkv(*whole.qkv, division.how, /*stacked=*/3),
        up(*whole.up, division.how),
        projection(*whole.projection, division.how),
        down(*whole.down, division.how),
        heads(whole.heads / division.how.group.ranks()),
        mistake(division.mistake) {
    register_module("norm1", norm1);
    register_module("qkv", qkv);
    register_module("projection", projection);
    register_module("norm2", norm2);
    register_module("up", up);
    register_module("down", down);
  }

  /// (tokens, D) to (tokens, D); in sequence parallelism this rank's tokens. Attention sees all tokens, `length` of a
  /// sequence, and this rank's heads.
  torch::Tensor forward(const torch::Tensor& x, int64_t length) {
    RECORD_USER_SCOPE("block.forward");
    const torch::Tensor parts = qkv(norm1(x));  // (all tokens, 3 D / ranks)
    const torch::Tensor attended =
        aten_attention(parts.view({-1, length, 3, heads, parts.size(1) / 3 / heads}), 0).flatten(0, 1);
    const torch::Tensor h = x + row_parallel(*projection, attended);
    return h + row_parallel(*down, torch::gelu(up(norm2(h)), "tanh"));
  }

  torch::Tensor row_parallel(RowParallelLinearImpl& layer, const torch::Tensor& part) const {
    if (mistake != Mistake::bias_on_every_rank) return layer.forward(part);
    return sum_over_ranks(torch::linear(part, layer.weight, layer.bias), layer.how.group);  // wrong
  }

  torch::nn::LayerNorm norm1, norm2;
  ColumnParallelLinear qkv, up;
  RowParallelLinear projection, down;
  int64_t heads;
  Mistake mistake;
};
TORCH_MODULE(ParallelBlock);

/// A weight by name, as GptImpl has it, that may be a part.
struct WeightImpl : torch::nn::Module {
  explicit WeightImpl(const torch::Tensor& own) : weight(register_parameter("weight", own)) {}
  torch::Tensor weight;
};
TORCH_MODULE(Weight);

/// A rank's part of a GPT. Every rank draws the whole model alike and keeps its part.
struct ParallelGpt : torch::nn::Module {
  ParallelGpt(Gpt whole, const Division& chosen)
      : division(chosen),
        vocabulary(whole->tokens->weight.size(0)),
        part(vocabulary, division.vocabulary ? group().rank() : 0, division.vocabulary ? group().ranks() : 1),
        positions(whole->positions),
        norm(whole->norm) {
    const GptOptions& options = whole->options;
    TORCH_CHECK_VALUE(options.heads % group().ranks() == 0, group().ranks(),
                      " ranks do not divide heads=", options.heads);
    TORCH_CHECK_VALUE(options.dropout == 0, "dropout needs a random state for each rank: set dropout=0");
    TORCH_CHECK_VALUE(!division.how.sequence || division.vocabulary,
                      "sequence parallelism is written for a divided vocabulary");
    const auto rows = [&](const torch::Tensor& weight) {
      return Weight(division.vocabulary ? vocabulary_rows(weight, part) : weight.detach().clone());
    };
    tokens = register_module("tokens", rows(whole->tokens->weight));
    register_module("positions", positions);
    for (auto& block : whole->blocks)
      blocks.push_back(register_module("block" + std::to_string(blocks.size()), ParallelBlock(*block, division)));
    register_module("norm", norm);
    head = register_module("head", rows(whole->head->weight));
    if (division.mistake == Mistake::padding_counted) part.classes = part.rows;  // wrong
  }

  const TensorGroup& group() const { return division.how.group; }

  /// Mean loss of (B, T) ids and targets, the same on every rank.
  torch::Tensor loss(const torch::Tensor& ids, const torch::Tensor& targets) {
    torch::Tensor h = embed(ids.flatten(), ids.size(1));
    for (auto& block : blocks) h = block->forward(h, ids.size(1));
    RECORD_USER_SCOPE("head.forward");
    h = norm(h);
    if (!division.vocabulary) return torch::cross_entropy_loss(torch::linear(h, head->weight), targets.flatten());
    const torch::Tensor logits = column_linear(h, head->weight, {}, division.how);  // (all tokens, V / ranks)
    return vocabulary_parallel_cross_entropy(logits, targets.flatten(), part, group());
  }

  /// (B T) ids to (tokens, D); in sequence parallelism this rank's.
  torch::Tensor embed(const torch::Tensor& ids, int64_t length) {
    const torch::Tensor places = torch::arange(ids.size(0), ids.options()).remainder_(length);
    if (!division.vocabulary) return torch::embedding(tokens->weight, ids) + positions(places);
    return vocabulary_parallel_embedding(ids, tokens->weight, part, division.how) +
           positions(division.how.sequence ? group().own_rows(places) : places);
  }

  /// After backward(), in sequence parallelism: sums the gradients of what each rank uses for its own tokens alone.
  void sum_replicated_gradients() const {
    if (division.how.sequence && division.mistake != Mistake::norm_not_summed) sum_gradients(replicated(), group());
  }

  /// Then scales the gradients so that their norm, over all ranks, is at most `max_norm`; 0: leaves them.
  void clip_gradients(double max_norm) const {
    if (max_norm <= 0) return;
    if (division.mistake == Mistake::norm_of_own_part)
      torch::nn::utils::clip_grad_norm_(parameters(), max_norm);  // wrong
    else
      clip_grad_norm_sharded(divided(), replicated(), max_norm, group());
  }

  /// Parameters that every rank has whole, and those of which it has a part.
  std::vector<torch::Tensor> replicated() const { return parameters_that_are(/*cut=*/false); }
  std::vector<torch::Tensor> divided() const { return parameters_that_are(/*cut=*/true); }
  std::vector<torch::Tensor> parameters_that_are(bool cut) const {
    std::vector<torch::Tensor> parameters;
    for (const auto& item : named_parameters()) {
      if ((cut_of(item.key()).dimension >= 0) == cut) parameters.push_back(item.value());
    }
    return parameters;
  }

  Cut cut_of(const std::string& name) const {
    const auto ends = [&](const char* with) { return name.ends_with(with); };
    if (ends("qkv.weight") || ends("qkv.bias")) return {0, 3};
    if (ends("up.weight") || ends("up.bias")) return {0};
    if (ends("projection.weight") || ends("down.weight")) return {1};
    if (division.vocabulary && (name == "tokens.weight" || name == "head.weight")) return {0};
    return {};
  }

  /// The whole of one of this rank's parameters, or of its gradient; every rank must call it.
  torch::Tensor whole_value(const std::string& name, const torch::Tensor& own) const {
    const torch::NoGradGuard no_grad;
    const Cut cut = cut_of(name);
    if (cut.dimension < 0) return own.detach().clone();
    const auto parts = group().gather(own.detach().unsqueeze(0)).unbind(0);
    const torch::Tensor whole = whole_of(parts, cut);
    return name == "tokens.weight" || name == "head.weight" ? whole.narrow(0, 0, vocabulary).clone() : whole;
  }

  /// All parameters and gradients, on every rank.
  Gathered gather() const {
    Gathered all;
    for (const auto& item : named_parameters()) {
      const torch::Tensor gradient = item.value().grad();
      all.parameters.insert(item.key(), whole_value(item.key(), item.value()));
      all.gradients.insert(item.key(), gradient.defined() ? whole_value(item.key(), gradient) : torch::Tensor());
    }
    return all;
  }

  Division division;
  int64_t vocabulary;
  VocabularyPart part;
  Weight tokens{nullptr}, head{nullptr};
  torch::nn::Embedding positions;
  std::vector<ParallelBlock> blocks;
  torch::nn::LayerNorm norm;
};

}  // namespace tenfold::inline lesson_54
