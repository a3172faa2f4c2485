// Lesson 31 - Activation checkpointing
// How much memory does it save if backward() recomputes activations instead of keeping them, and what does it cost?
// Read checkpoint.h first: it is the technique. by_plan() calls it; a plan of plan.h says for which blocks. Then
// selective_recomputation.h, which recomputes less of each block.
#include "common/harness/lesson.h"
#include "checkpoint.h"
#include "common/models/gpt.h"
#include "common/models/precision.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "plan.h"
#include "prediction.h"
#include "selective_recomputation.h"

namespace {
using tenfold::Autocast;
using tenfold::autocast_input;
using tenfold::CheckpointOptions;
using tenfold::GptBlockImpl;
using tenfold::GptParts;
using tenfold::GptTraining;
using tenfold::MakePlan;
using tenfold::Plan;
using tenfold::Segment;
using tenfold::SelectiveRecomputation;
using tenfold::Step;
using tenfold::Trial;
using tenfold::Variant;
using torch::Tensor;

/// One training step of the GPT; how its blocks run, from the embeddings to the last block's result, is all that
/// differs between the variants.
template <class Blocks>
Step train(const Trial& trial, const std::shared_ptr<GptTraining>& training, const Blocks& run_blocks) {
  auto update = [training, run_blocks, sixteen_bits = tenfold::in_16_bits(trial), device = trial.device.type()] {
    auto [ids, targets] = training->next_batch();  // (B, T) each
    training->optimizer->zero_grad();              // before forward: gradients must not live through the peak
    Tensor loss;
    {
      const Autocast scope(device, torch::kBFloat16, sixteen_bits);
      loss = training->model->loss(run_blocks(training->model->embed(ids)), targets);
    }
    loss.backward();
    training->optimizer->step();
    return loss;
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

/// Blocks are kept or recomputed as a whole, as the plan says.
Step by_plan(const Trial& trial, MakePlan make_plan, CheckpointOptions options = {}) {
  auto training = std::make_shared<GptTraining>(trial);
  const Plan plan = make_plan(trial.get(tenfold::gpt::kLayers));
  return train(trial, training, [model = training->model.get(), plan, options](Tensor h) {  // (B, T, D)
    for (const Segment& segment : plan) {
      const auto run_segment = [model, segment](Tensor x) {
        for (int64_t i = segment.first; i < segment.last; ++i) x = model->blocks[i]->forward(x);
        return x;
      };
      h = segment.recompute ? tenfold::checkpoint_with(options, run_segment, h) : run_segment(h);
    }
    return h;
  });
}

/// Of every block the norms and GELU are recomputed, and no matmul: their results are the inputs of three of its four
/// linear layers.
Step selective(const Trial& trial) {
  auto again = std::make_shared<SelectiveRecomputation>();
  const auto norm = [again](torch::nn::LayerNormImpl& layer, const Tensor& x) {
    return again->cheap([&layer](const Tensor& t) { return autocast_input(layer.forward(t)); }, x);
  };
  const auto mlp = [again](GptBlockImpl& block, const Tensor& x) {
    const Tensor inner = block.parts->linear(*block.up, x);  // (B, T, 4 D)
    return block.parts->linear(*block.down,
                               again->cheap([](const Tensor& t) { return torch::gelu(t, "tanh"); }, inner));
  };
  auto training = std::make_shared<GptTraining>(trial, GptParts{.norm = norm, .mlp = mlp});
  return train(trial, training, [model = training->model.get(), again](Tensor h) {
    for (auto& block : model->blocks) h = again->block([&block](const Tensor& x) { return block->forward(x); }, h);
    return h;
  });
}

/// The trap: without the random state, the recomputed blocks drop other activations than those that made the loss.
Step new_random_numbers(const Trial& trial) {
  return by_plan(trial, tenfold::every_block, {.keep_random_state = false});
}

Variant variant(const std::string& name, MakePlan make_plan) {
  return {name, [make_plan](const Trial& trial) { return by_plan(trial, make_plan); }, tenfold::predict(make_plan)};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  enable_saved_tensor_hooks();  // before the first backward(): all variants on one engine
  Variant every_block_16_bits = variant("every block, 16 bits", every_block);
  every_block_16_bits.agreement = exact_on_cpu_in_16_bits();
  return run(argc, argv,
             {.title = "Activation checkpointing",
              .question = "How much memory does it save if backward() recomputes activations instead of keeping them, "
                          "and what does it cost?",
              .workload = gpt_workload,
              .version = 7,
              .core = true,
              .settings = {kPrecision},
              .baseline = variant("keep all", keep_all),
              .most_bytes = most_bytes,
              .techniques = {variant("every block", every_block),
                             variant("every second", every_second),
                             variant("square root", square_root),
                             {"selective", selective, predict_selective},
                             {"new random numbers", new_random_numbers},
                             every_block_16_bits,
                             {"selective, 16 bits", selective, predict_selective, exact_on_cpu_in_16_bits()}},
              .cases = {{"gpt",
                         {gpt::kLayers(12), gpt::kBatch(2), gpt::kDropout(0.1)},
                         {{"every block", {SLOWER, SMALLER}},
                          {"every second", {SLOWER, SMALLER}},
                          {"square root", {SLOWER, SMALLER}},
                          {"selective", {SLOWER, SMALLER}, on_cuda(SMALLER)},
                          {"new random numbers", TRAP}}},
                        {"gpt, 16 bits",
                         {gpt::kLayers(12), gpt::kBatch(2, 8, 16), gpt::kDropout(0.1), kPrecision("bfloat16")},
                         {{"every block, 16 bits", {SLOWER, SMALLER}}, {"selective, 16 bits", SMALLER}}},
                        {"model states",
                         {gpt::kLayers(2), gpt::kBatch(1), gpt::kLength(8), gpt::kWidth(256), gpt::kHeads(4)},
                         {{"every block", {SLOWER, SAME_MEMORY}}, {"every second", {SLOWER, SAME_MEMORY}}}},
                        // As much memory for each, not the same batch: what fits, and how fast it is.
                        {.name = "same memory",
                         .settings = {gpt::kLayers(12), gpt::kBatch(1)},
                         .expected = {{"every block", SLOWER}, {"every second", {}}, {"selective", {}}},
                         .budget = SameBudget{{24 << 20, int64_t{3} << 30, int64_t{12} << 30}, "batch"}}},
              .headline = Headline{"gpt", "every block"},
              .agreement = Agreement::exact_on_cpu()});
}
