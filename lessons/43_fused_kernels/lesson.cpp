// Lesson 43 - Fused kernels
// How much of a training step is memory traffic of small operators that a fused kernel saves?
// Read gpt_operators.h first: the operators eager and fused, and where the GPT uses them; all else of the GPT stays.
#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "gpt_operators.h"
#include "operator_survey.h"
#include "prediction.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// One training step of the GPT; its small operators are all that differs between the variants.
Step train(const Trial& trial, const GptParts& parts) {
  auto work = std::make_shared<GptTraining>(trial, parts);
  return {.items = work->tokens_per_step(), .parameters = work->parameters(), .update = [work] {
            auto [ids, targets] = work->next_batch();  // (B, T) each
            work->optimizer->zero_grad();
            Tensor loss = work->model->loss(work->model->hidden(ids), targets);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

/// The GPT as it is: ATen's LayerNorm and GELU are one kernel each, and the matmul adds the bias.
Step aten(const Trial& trial) { return train(trial, {}); }

/// Operators as a model has them that was written from the papers' formulas: each result goes through memory.
Step eager(const Trial& trial) { return train(trial, with_operators(kEager)); }

/// The kernels of kernels/layer_norm and kernels/bias_gelu.
Step our_kernels(const Trial& trial) {
  if (!trial.device.is_cuda()) {
    trial.skip(
        "needs a CUDA device; on a CPU the same kernels run under the microscope: in the tests and in survey counted");
  }
  return train(trial, with_operators(kFused));
}

void count_eager(const Trial& trial) { note_operators(trial, kEager, eager_softmax); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  constexpr Expect kSame{SAME_SPEED, SAME_MEMORY};
  return run(
      argc, argv,
      {.title = "Fused kernels",
       .question = "How much slower and larger is a training step whose small operators are not fused?",
       .workload = gpt_workload,
       .version = 9,
       .core = true,
       .settings = {kRows, kColumns},
       .baseline = {"ATen's kernels", aten},
       .techniques = {{"eager", eager, keeps_more}, {"our kernels", our_kernels, keeps_the_same}},
       .cases = {{"gpt", {}, {{"eager", {SLOWER, LARGER}}, {"our kernels", kSame}}},
                 {"wide",
                  {gpt::kLayers(1), gpt::kWidth(512), gpt::kHeads(8), gpt::kBatch(1), gpt::kLength(16)},
                  {{"eager", kSame, on_cuda({SLOWER, SAME_MEMORY})}, {"our kernels", kSame}}}},
       .surveys = {{"counted",
                    {{"ATen's kernels", note_aten_operators}, {"eager", count_eager}, {"our kernels", note_kernels}}}},
       .headline = Headline{"gpt", "eager"},
       .agreement = Agreement::within(1e-4, "the same sums in another order")});
}
