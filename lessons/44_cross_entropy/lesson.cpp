// Lesson 44 - Cross-entropy without the logits
//
// Question  How much memory comes back if the logits of a language model are never there as a whole, and what does it cost?
// Expect    With GPT-2's vocabulary the logits are most of the peak, and most of it goes; the work is the same.
// Not for   Small vocabularies (case "R2" on a CPU: characters) and few tokens (case "few tokens").
// Run       ./tenfold run 44_cross_entropy
// Read      chunked_linear_cross_entropy.h is the technique; loss_in_chunks() calls it where plain_loss() calls the model's.
#include <tenfold/chunked_linear_cross_entropy.h>
#include <tenfold/gpt.h>
#include <tenfold/lesson.h>

namespace {
using tenfold::Counted;
using tenfold::GptTraining;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// Loss of the last block's output h (B, T, D) against targets (B, T).
using Loss = std::function<Tensor(tenfold::Gpt& model, const Tensor& h, const Tensor& targets)>;

/// Without the technique: logits (B T, V), their logarithms of probabilities, and two gradients of that size.
Tensor plain_loss(tenfold::Gpt& model, const Tensor& h, const Tensor& targets) { return model->loss(h, targets); }

/// With it: the head's weight goes into the loss, and the logits come and go in chunks.
Tensor loss_in_chunks(tenfold::Gpt& model, const Tensor& h, const Tensor& targets, int64_t chunk_rows) {
  return tenfold::chunked_linear_cross_entropy(model->norm(h), model->head->weight, targets, {.chunk_rows = chunk_rows});
}

/// R2, or with gpt2_tokens on a CPU its text in GPT-2's 50257 tokens, which larger sizes have anyway.
std::shared_ptr<GptTraining> gpt_training(Trial trial) {
  if (trial.get("gpt2_tokens", trial.by_size(0, 1, 1)) != 0 && trial.size == tenfold::Size::cpu) trial.size = tenfold::Size::gpu8;
  return std::make_shared<GptTraining>(trial);
}

/// One training step of the GPT; the loss is all that differs between the variants.
Step train(const Trial& trial, const Loss& loss_of) {
  auto work = gpt_training(trial);
  return {work->tokens_per_step(), work->parameters(), [work, loss_of] {
            auto [ids, targets] = work->next_batch();  // (B, T) each
            work->optimizer->zero_grad();              // before forward: gradients must not live through the peak
            Tensor h = work->model->embed(ids);        // (B, T, D)
            for (auto& block : work->model->blocks) h = block->forward(h);
            Tensor loss = loss_of(work->model, h, targets);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

Step plain(const Trial& trial) { return train(trial, plain_loss); }

Step chunked(const Trial& trial) {
  const int64_t chunk_rows = trial.get("chunk_rows", 0);  // 0: default_chunk_rows
  return train(trial, [chunk_rows](tenfold::Gpt& model, const Tensor& h, const Tensor& targets) {
    return loss_in_chunks(model, h, targets, chunk_rows);
  });
}

/// The baseline's sizes, in bytes of 32-bit numbers, and the chunks that it would be cut into.
struct Sizes {
  int64_t stream, logits, weight, chunk, chunks;
};
Sizes sizes(const Counted& baseline) {
  const auto rows = static_cast<int64_t>(baseline.setting("batch") * baseline.setting("length"));
  const auto width = static_cast<int64_t>(baseline.setting("width"));
  const int64_t stream = rows * width * 4;  // (B, T, D)
  // The head keeps its norm's output, mean and deviation of each row, and the logarithms of the probabilities.
  const int64_t classes = (baseline.region("head.forward").retained_bytes - stream) / (rows * 4) - 2;
  const auto asked = static_cast<int64_t>(baseline.setting("chunk_rows"));
  const int64_t of_chunk = std::min(rows, asked > 0 ? asked : tenfold::default_chunk_rows(rows, width, classes));
  return {stream, rows * classes * 4, classes * width * 4, of_chunk * classes * 4, (rows + of_chunk - 1) / of_chunk};
}

/// Peak bytes: the highest of four moments. Parameters and momenta are always there, and until backward() has been there, so
/// is what the blocks keep.
///   in a chunk            both gradients of the loss, as far as they are, and one chunk's logits
///   the loss's backward() both gradients twice: as they were, and multiplied by the loss's own gradient
///   the last block        the head's gradient, the block's working memory (see lesson 31)
///   at the end            all gradients, and the one that arrives at the embeddings
int64_t peak_of(const Counted& baseline, const Sizes& size) {
  const auto width = static_cast<int64_t>(baseline.setting("width"));
  const int64_t states = baseline.resting_bytes - baseline.gradient_bytes;
  const int64_t kept = states + size.stream + baseline.region("block.forward").retained_bytes;
  const int64_t at_loss = kept + 2 * size.stream + size.weight;  // the norm's output, and the gradients
  const int64_t in_chunk = at_loss + size.chunk, in_backward = at_loss + size.stream + size.weight;
  const int64_t in_block = kept + size.weight + 5 * size.stream + 4 * width * width * 4;
  return std::max({in_chunk, in_backward, in_block, baseline.resting_bytes + size.stream});
}

/// The same products; what differs is how often memory is passed over. Plain: log_softmax reads and writes, the gradient of
/// the targets' entries is written, log_softmax's reads two tensors and writes one, 6 times the logits. In chunks: largest 1,
/// difference 2, exp 2, sum 1, product 2, so 8; and each chunk but the first reads the weight twice, and reads and writes its
/// gradient, once more. On the CPU, arrays over 32 MiB come from the system each time, which clears them: a write each,
/// for the plain logits, their logarithms and two gradients.
tenfold::Prediction in_chunks(const Counted& baseline) {
  const Sizes size = sizes(baseline);
  tenfold::Prediction prediction{.peak_bytes = peak_of(baseline, size)};
  const auto copy = baseline.ceilings.find("cpu_copy_bytes_per_s");
  if (copy != baseline.ceilings.end()) {
    constexpr int64_t kFromTheSystem = 32 << 20;
    const double cleared = (size.chunk > kFromTheSystem ? 1.0 : 0.0) - (size.logits > kFromTheSystem ? 4.0 : 0.0);
    const double more = (8 - 6 + cleared) * static_cast<double>(size.logits) + 4.0 * static_cast<double>((size.chunks - 1) * size.weight);
    prediction.speed_ratio = baseline.step_seconds / (baseline.step_seconds + more / copy->second);
  }
  return prediction;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return tenfold::run(
      argc, argv,
      {.title = "Cross-entropy without the logits",
       .question = "How much memory comes back if the logits of a language model are never there as a whole, and what does it cost?",
       .workload = "R2",
       .baseline = {"plain", plain},
       .techniques = {{"chunked", chunked, in_chunks}},
       // R2 itself has 128 characters on a CPU: its logits are small. On a GPU it has GPT-2's tokens. The case with GPT-2's
       // tokens on a CPU has a GPT so narrow that tokens / width, which decides, is what 12 x 1024 tokens are to width 768.
       .cases = {{"R2", {}, {{"chunked", {SAME, ANY, VALID}, {{ANY, SMALLER, VALID}}}}},
                 {"GPT-2 vocabulary",
                  {{"gpt2_tokens", 1}, {"layers", 2}, {"width", 16}, {"heads", 2}, {"length", 64}, {"batch", 4}},
                  {{"chunked", {FASTER, SMALLER, VALID}, {{ANY, SMALLER, VALID}}}}},
                 {"few tokens",
                  {{"gpt2_tokens", 1}, {"layers", 2}, {"width", 16}, {"heads", 2}, {"length", 8}, {"batch", 1}},
                  {{"chunked", {ANY, SAME, VALID}}}}},
       .agreement = tenfold::Agreement::within(1e-5, "the same sums in another order")});
}
