// Lesson 46 - FlashAttention
// How much memory and time does attention save when its scores are never materialised?
// Read gpt_attention.h first: attention eager, by ATen's fused operator and by our kernel; the rest of the GPT stays.
#include "common/harness/lesson.h"
#include "attention_survey.h"
#include "common/models/gpt.h"
#include "common/models/precision.h"
#include "gpt_attention.h"
#include "kernels/flash_attention/flash_attention.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "prediction.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// One training step of the GPT; how attention is computed is all that differs between the variants.
Step train(const Trial& trial, Attention attention) {
  auto work = std::make_shared<GptTraining>(trial, with_attention(attention));
  return {.items = work->tokens_per_step(),
          .parameters = work->parameters(),
          .update = [work, sixteen_bits = in_16_bits(trial), device = trial.device.type()] {
            auto [ids, targets] = work->next_batch();  // (B, T) each
            work->optimizer->zero_grad();  // before forward: gradients must not live through the activation peak
            Tensor loss;
            {
              const Autocast scope(device, torch::kBFloat16, sixteen_bits);
              loss = work->model->loss(work->model->hidden(ids), targets);
            }
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

/// Every line of the formula an operator.
Step eager(const Trial& trial) { return train(trial, eager_attention); }

/// ATen's fused operator, as the GPT workload has it.
Step sdpa(const Trial& trial) { return train(trial, sdpa_attention); }

/// Needs a GPU; on a CPU its kernels run under the microscope, in the tests and in the survey.
Step our_kernel(const Trial& trial) {
  if (!trial.device.is_cuda()) {
    trial.skip(
        "needs a CUDA device; on a CPU the same kernels run under the microscope: in the tests and in survey counted");
  }
  const int64_t head_dim = trial.get(gpt::kWidth) / trial.get(gpt::kHeads);
  if (!kernels::flash_attention_takes(head_dim)) {
    trial.skip("has heads of width " + std::to_string(head_dim) + "; the kernel is compiled for 32, 64 and 128");
  }
  return train(trial, kernel_attention);
}

/// Two kernels round weights and sums to bfloat16 in other places: up to its last bit each, as in lesson 21.
Agreement of_two_kernels() {
  return Agreement::within(2 * tenfold::kLastBitOfBfloat16, "two roundings to bfloat16, 2^-8 each");
}

void count_eager(const Trial& trial) { note_attention_operators(trial, eager_attention); }
void count_sdpa(const Trial& trial) { note_attention_operators(trial, sdpa_attention); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const std::vector<Expectation> pays = {{"SDPA", {FASTER, SMALLER}}, {"our kernel", SMALLER}};
  // A GPU's step is so short here that an operator fewer shows.
  const std::vector<Expectation> no_matter = {{"SDPA", {SAME_SPEED, SAME_MEMORY}, on_cuda(SAME_MEMORY)},
                                              {"our kernel", {SAME_SPEED, SAME_MEMORY}, on_cuda(SAME_MEMORY)}};
  return run(
      argc, argv,
      {.title = "FlashAttention",
       .question = "How much memory and time does attention save when its scores are never materialised?",
       .workload = gpt_workload,
       .version = 13,
       .core = true,
       .settings = {kLongest, kPrecision},
       .baseline = {"eager", eager},
       .most_bytes = tenfold::most_bytes,
       .techniques = {{"SDPA", sdpa, without_scores},
                      {"our kernel", our_kernel, result_kept_twice},
                      {"SDPA, 16 bits", sdpa, nullptr, of_two_kernels()},
                      {"our kernel, 16 bits", our_kernel, nullptr, of_two_kernels()}},
       .cases =
           {{.name = "gpt", .expected = pays},
            {"long", {gpt::kLength(512, 2048, 4096), gpt::kBatch(1, 1, 2)}, pays},
            // FlashAttention takes 16 bits alone. On an H100 SDPA takes cuDNN's kernel, which does, too.
            {.name = "long, 16 bits",
             .settings = {gpt::kLength(512, 2048, 4096), gpt::kBatch(1, 1, 2), kPrecision("bfloat16")},
             .expected = {{"SDPA, 16 bits", SMALLER, on_cuda({FASTER, SMALLER})}, {"our kernel, 16 bits", SMALLER}}},
            {"short", {gpt::kLayers(1), gpt::kWidth(512), gpt::kHeads(4), gpt::kLength(16), gpt::kBatch(1)}, no_matter},
            // As much memory for each: the longest context that fits, and how fast it is.
            {.name = "same memory",
             .settings = {gpt::kLength(128, 256, 512), gpt::kBatch(1)},
             .expected = {{"SDPA", {}}, {"our kernel", {}}},
             .budget = SameBudget{{32 << 20, int64_t{3} << 30, int64_t{12} << 30}, "length"}}},
       .surveys = {{"counted", {{"eager", count_eager}, {"SDPA", count_sdpa}, {"our kernel", note_attention_kernels}}}},
       .headline = Headline{"long", "SDPA"},
       .agreement = Agreement::within(1e-4, "the same sums in another order")});
}
