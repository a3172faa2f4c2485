// Lesson 44 - Cross-entropy without the logits
// How much memory do you save by never materialising the logits, and what does it cost?
// Read chunked_linear_cross_entropy.h first: it is the technique, and loss_in_chunks() makes it the GPT's loss.
#include "common/harness/lesson.h"
#include "chunked_linear_cross_entropy.h"
#include "common/models/gpt.h"
#include "common/models/precision.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "prediction.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// One training step of the GPT; the loss is all that differs between the variants.
Step train(const Trial& trial, const std::shared_ptr<GptTraining>& work) {
  return {.items = work->tokens_per_step(),
          .parameters = work->parameters(),
          .update = [work, sixteen_bits = in_16_bits(trial), device = trial.device.type()] {
            auto [ids, targets] = work->next_batch();  // (B, T) each
            work->optimizer->zero_grad();              // before forward: gradients must not live through the peak
            Tensor loss;
            {
              const Autocast scope(device, torch::kBFloat16, sixteen_bits);
              const Tensor h = work->model->hidden(ids);  // (B, T, D)
              loss = work->model->loss(h, targets);
            }
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

/// Without the technique: logits (B T, V), their logarithms of probabilities, and two gradients of that size.
Step plain(const Trial& trial) { return train(trial, std::make_shared<GptTraining>(trial)); }

/// With it: the head's weight goes into the loss, which computes the logits chunk by chunk.
GptParts loss_in_chunks(int64_t chunk_rows) {
  return {.loss = [chunk_rows](GptImpl& model, const Tensor& h, const Tensor& targets) {
    return chunked_linear_cross_entropy(model.norm(h), model.head->weight, targets, {.chunk_rows = chunk_rows});
  }};
}

Step chunked(const Trial& trial) {
  return train(trial, std::make_shared<GptTraining>(trial, loss_in_chunks(trial.get(kChunkRows))));
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return run(argc, argv,
             {.title = "Cross-entropy without the logits",
              .question = "How much memory do you save by never materialising the logits, and what does it cost?",
              .workload = gpt_workload,
              .version = 8,
              .settings = {kChunkRows, kPrecision},
              .baseline = {"plain", plain},
              .most_bytes = tenfold::most_bytes,
              .techniques = {{"chunked", chunked, in_chunks}, {"chunked, 16 bits", chunked, in_chunks, of_16_bits()}},
              // The GPT has 128 characters on a CPU: its logits are small. On a GPU it has GPT-2's tokens. The case
              // with GPT-2's tokens on a CPU has a GPT so narrow that tokens / width, which decides, is what 12 x 1024
              // tokens are to width 768.
              .cases = {{"gpt", {}, {{"chunked", SAME_SPEED, on_cuda(SMALLER)}}},
                        {"GPT-2 vocabulary",
                         {gpt::kTokens("gpt2"), gpt::kLayers(2), gpt::kWidth(16, 512, 768), gpt::kHeads(2, 8, 12),
                          gpt::kLength(64, 512, 1024), gpt::kBatch(4, 8, 12)},
                         {{"chunked", {FASTER, SMALLER}, on_cuda(SMALLER)}}},
                        // Chunks that tensor cores are not kept waiting by: default_chunk_rows() says why.
                        {"GPT-2 vocabulary, 16 bits",
                         {gpt::kTokens("gpt2"), gpt::kLayers(2), gpt::kWidth(16, 512, 768), gpt::kHeads(2, 8, 12),
                          gpt::kLength(64, 512, 1024), gpt::kBatch(4, 8, 12), kPrecision("bfloat16"),
                          kChunkRows(64, 1024, 1024)},
                         {{"chunked, 16 bits", SMALLER}}},
                        {"few tokens",
                         {gpt::kTokens("gpt2"), gpt::kLayers(2), gpt::kWidth(16), gpt::kHeads(2), gpt::kLength(8),
                          gpt::kBatch(1)},
                         {{"chunked", SAME_MEMORY}}},
                        // As much memory for each, not the same batch: what fits, and how fast it is.
                        {.name = "same memory",
                         .settings = {gpt::kTokens("gpt2"), gpt::kBatch(1)},
                         .expected = {{"chunked", {}}},
                         .budget = SameBudget{{128 << 20, int64_t{3} << 30, int64_t{12} << 30}, "batch"}}},
              .headline = Headline{"GPT-2 vocabulary", "chunked"},
              .agreement = Agreement::within(1e-4, "the same sums in another order")});
}
