// Lesson 46 - FlashAttention
//
// Question  What does attention cost when the matrix of its scores is never written, in memory and in time?
// Expect    Memory that grows with the length of the sequence instead of its square; the same losses; less time, too.
// Not for   Short sequences in wide layers (case "short"): the scores are few, and the matrix products take the time.
// Run       ./tenfold run 46_flash_attention
// Read      gpt_attention.h: attention three times, and where R2's block uses it; case "counted" counts bytes for each pair.
#include <tenfold/attention_counts.h>
#include <tenfold/flash_attention.h>
#include <tenfold/gpt.h>
#include <tenfold/gpt_attention.h>
#include <tenfold/lesson.h>

namespace {
using tenfold::Attention;
using tenfold::Counted;
using tenfold::GptTraining;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// One training step of the GPT; how attention is computed is all that differs between the variants.
Step train(const std::shared_ptr<GptTraining>& work, Attention attention) {
  return {work->tokens_per_step(), work->parameters(), [work, attention] {
            auto [ids, targets] = work->next_batch();  // (B, T) each
            work->optimizer->zero_grad();              // before forward: gradients must not live through the activation peak
            Tensor loss = tenfold::loss_with(*work->model, ids, targets, attention);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

bool only_counted(const Trial& trial) { return trial.get("counted", 0) > 0; }

/// Every line of the formula an operator.
Step written_out(const Trial& trial) {
  if (only_counted(trial)) return tenfold::note_attention_operators(trial, tenfold::attention_by_formula);
  return train(std::make_shared<GptTraining>(trial), tenfold::attention_by_formula);
}

/// R2 as it is.
Step sdpa(const Trial& trial) {
  if (only_counted(trial)) return tenfold::note_attention_operators(trial, tenfold::attention_by_aten);
  return train(std::make_shared<GptTraining>(trial), tenfold::attention_by_aten);
}

Step our_kernel(const Trial& trial) {
  if (only_counted(trial)) return tenfold::note_attention_kernels(trial);
  if (!trial.device.is_cuda()) {
    trial.cannot("needs a CUDA device; on a CPU the same kernels run under the microscope: in the tests and in case counted");
  }
  const auto work = std::make_shared<GptTraining>(trial);
  const int64_t head_dim = work->model->config.width / work->model->config.heads;
  if (!tenfold::kernels::flash_attention_takes(head_dim)) {
    trial.cannot("has heads of width " + std::to_string(head_dim) + "; the kernel is compiled for 32, 64 and 128");
  }
  return train(work, tenfold::attention_by_kernel);
}

/// Peak bytes: the highest of three moments. Parameters and momenta are always there. In each layer the weights of every pair, four
/// bytes, and the mask give way to one number for each query: q, k, v and the result are kept as before. On top of what the blocks keep
/// come the two gradients of the head's loss, or the working memory of the last block's backward (see lesson 31).
tenfold::Prediction without_scores(const Counted& baseline) {
  const auto setting = [&](const char* name) { return static_cast<int64_t>(baseline.setting(name)); };
  const int64_t layers = setting("layers"), length = setting("length"), width = setting("width"),
                rows = setting("batch") * setting("heads");
  const int64_t scores = rows * length * length * 4 + length * length, sums = rows * length * 4;
  const int64_t stream = setting("batch") * length * width * 4;  // (B, T, D)
  const int64_t block_gradients = layers * (12 * width + 13) * width * 4;
  const auto& head = baseline.region("head.forward");
  const int64_t states = baseline.resting_bytes - baseline.gradient_bytes;
  const int64_t kept = states + stream + baseline.region("block.forward").retained_bytes - layers * (scores - sums);
  const int64_t at_loss = kept + std::max(head.largest_peak_bytes, head.retained_bytes + 2 * (head.retained_bytes - stream));
  const int64_t in_block = kept + baseline.gradient_bytes - block_gradients + 5 * stream + 4 * width * width * 4;
  return {.peak_bytes = std::max({at_loss, in_block, baseline.resting_bytes + stream})};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return tenfold::run(
      argc, argv,
      {.title = "FlashAttention",
       .question = "What does attention cost when the matrix of its scores is never written, in memory and in time?",
       .workload = "R2",
       .baseline = {"written out", written_out},
       .techniques = {{"SDPA", sdpa, without_scores}, {"our kernel", our_kernel, without_scores}},
       .cases = {{"R2", {}, {{"SDPA", {FASTER, SMALLER, VALID}}, {"our kernel", {ANY, SMALLER, VALID}}}},
                 {"long", {{"length", 512}, {"batch", 1}}, {{"SDPA", {FASTER, SMALLER, VALID}}, {"our kernel", {ANY, SMALLER, VALID}}}},
                 {"short",
                  {{"layers", 1}, {"width", 512}, {"heads", 4}, {"length", 16}, {"batch", 1}},
                  {{"SDPA", {SAME, SAME, VALID}}, {"our kernel", {SAME, SAME, VALID}}}},
                 {"counted", {{"counted", 256}}, {{"SDPA", {}}, {"our kernel", {}}}, "foundation"}},
       .agreement = tenfold::Agreement::within(1e-4, "the same sums in another order")});
}
