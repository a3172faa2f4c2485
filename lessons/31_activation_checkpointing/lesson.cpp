// Lesson 31 - Activation checkpointing
//
// Question  How much memory comes back if backward() recomputes activations instead of keeping them, and what does it cost?
// Expect    Of each recomputed block only the input stays; a step costs one more forward of it; the numbers are the same.
// Not for   Models whose states, not activations, fill the memory (case "states").
// Run       ./tenfold run 31_activation_checkpointing
// Read      checkpoint.h is the technique; train() calls it; a Plan says for which blocks; peak_of() predicts what it saves.
#include <tenfold/checkpoint.h>
#include <tenfold/gpt.h>
#include <tenfold/lesson.h>

namespace {
using tenfold::Counted;
using tenfold::GptTraining;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// Neighbouring blocks [first, last) that are kept, or recomputed together.
struct Segment {
  int64_t first, last;
  bool recompute;
  int64_t blocks() const { return last - first; }
};
using Plan = std::vector<Segment>;  // all blocks, in order

Plan keep_all(int64_t layers) {
  Plan plan;
  for (int64_t i = 0; i < layers; ++i) plan.push_back({i, i + 1, false});
  return plan;
}

Plan every_block(int64_t layers) {
  Plan plan = keep_all(layers);
  for (Segment& segment : plan) segment.recompute = true;
  return plan;
}

/// The blocks 0, 2, 4, ...: backward() then starts with a block that is there.
Plan every_second(int64_t layers) {
  Plan plan = keep_all(layers);
  for (size_t i = 0; i < plan.size(); i += 2) plan[i].recompute = true;
  return plan;
}

/// About sqrt(layers) segments of sqrt(layers) blocks: fewer inputs are kept, but a whole segment is alive at a time.
Plan square_root(int64_t layers) {
  const auto blocks = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(layers))));
  Plan plan;
  for (int64_t i = 0; i < layers; i += blocks) plan.push_back({i, std::min(i + blocks, layers), true});
  return plan;
}

/// One training step of the GPT; the plan is all that differs between the variants.
Step train(const Trial& trial, Plan (*plan_for)(int64_t), tenfold::CheckpointOptions options = {}) {
  auto work = std::make_shared<GptTraining>(trial);
  const Plan plan = plan_for(static_cast<int64_t>(work->model->blocks.size()));
  return {work->tokens_per_step(), work->parameters(), [work, plan, options] {
            auto [ids, targets] = work->next_batch();  // (B, T) each
            work->optimizer->zero_grad();              // before forward: gradients must not live through the peak
            Tensor h = work->model->embed(ids);        // (B, T, D)
            for (const Segment& segment : plan) {
              const auto run_blocks = [work, segment](Tensor x) {
                for (int64_t i = segment.first; i < segment.last; ++i) x = work->model->blocks[static_cast<size_t>(i)]->forward(x);
                return x;
              };
              h = segment.recompute ? tenfold::checkpoint_with(options, run_blocks, h) : run_blocks(h);
            }
            Tensor loss = work->model->loss(h, targets);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

/// The trap: without the random state, the recomputed blocks drop other activations than those the loss was computed from.
Step new_random_numbers(const Trial& trial) { return train(trial, every_block, {.keep_random_state = false}); }

/// Peak bytes of a step under a plan. Parameters and momenta are always there. Forward adds what a kept block keeps
/// (counted on the baseline), or the output and the random state of a recomputed segment. Then backward walks from the
/// last segment to the first: a recomputed one is there again as a whole, on top of what the segments before it keep and
/// of the gradients of those behind it; once done, its activations have turned into gradients. The peak is the highest of
/// these moments, the head's included. On top comes what is in flight: see `working`.
int64_t peak_of(const Plan& plan, const Counted& baseline) {
  const auto& block = baseline.region("block.forward");
  const auto& head = baseline.region("head.forward");
  const auto width = static_cast<int64_t>(baseline.setting("width"));
  const int64_t stream = static_cast<int64_t>(baseline.setting("batch") * baseline.setting("length")) * width * 4;  // (B, T, D)
  const int64_t kept_by_block = block.retained_bytes / block.calls;
  const int64_t block_gradients = (12 * width + 13) * width * 4;
  const int64_t other_gradients = baseline.gradient_bytes - block.calls * block_gradients;  // embeddings and head
  // The random state lies in host memory: on a GPU it does not count.
  static const auto random_state = static_cast<int64_t>(at::detail::getDefaultCPUGenerator().get_state().nbytes());
  const int64_t kept_by_checkpoint = stream + random_state;
  // A block's backward begins with the gradients of its output, of the MLP's inner layer (4 D) and, with dropout, of
  // its mask; the inner layer's weight gradient (4 D, D) is the first to come.
  const int64_t working = (baseline.setting("dropout") > 0 ? 6 : 5) * stream + 4 * width * width * 4;

  int64_t held = baseline.resting_bytes - baseline.gradient_bytes + stream;  // states, and the embedded input
  for (const Segment& segment : plan) held += segment.recompute ? kept_by_checkpoint : segment.blocks() * kept_by_block;
  // The head keeps its norm's output and the logarithms of the probabilities; backward() makes two gradients of that size.
  int64_t peak = held + std::max(head.largest_peak_bytes, head.retained_bytes + 2 * (head.retained_bytes - stream));
  held += other_gradients;
  for (auto segment = plan.rbegin(); segment != plan.rend(); ++segment) {
    const int64_t whole = segment->blocks() * kept_by_block;
    peak = std::max(peak, held + (segment->recompute ? whole : 0) + working);
    held += segment->blocks() * block_gradients - (segment->recompute ? kept_by_checkpoint : whole);
  }
  return std::max(peak, baseline.resting_bytes);
}

/// The recomputed blocks' forward is paid twice.
tenfold::Prediction prediction(Plan (*plan_for)(int64_t), const Counted& baseline) {
  const Plan plan = plan_for(baseline.region("block.forward").calls);
  double recomputed = 0;
  for (const Segment& segment : plan) recomputed += segment.recompute ? static_cast<double>(segment.blocks()) : 0;
  const double part = recomputed / static_cast<double>(baseline.region("block.forward").calls);
  return {.speed_ratio = 1 / (1 + part * baseline.share("block.forward")), .peak_bytes = peak_of(plan, baseline)};
}

tenfold::Variant variant(const std::string& name, Plan (*plan_for)(int64_t)) {
  return {name, [plan_for](const Trial& trial) { return train(trial, plan_for); },
          [plan_for](const Counted& baseline) { return prediction(plan_for, baseline); }};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return tenfold::run(
      argc, argv,
      {.title = "Activation checkpointing",
       .question = "How much memory comes back if backward() recomputes activations instead of keeping them, and what does it cost?",
       .workload = "R2",
       .baseline = variant("keep all", keep_all),
       .techniques = {variant("every block", every_block),
                      variant("every second", every_second),
                      variant("square root", square_root),
                      {"new random numbers", new_random_numbers}},
       .cases = {{"R2",
                  {{"layers", 12}, {"batch", 2}, {"dropout", 0.1}},
                  {{"every block", {SLOWER, SMALLER, VALID}},
                   {"every second", {SLOWER, SMALLER, VALID}},
                   {"square root", {SLOWER, SMALLER, VALID}},
                   {"new random numbers", {ANY, ANY, TRAP}}}},
                 {"states",
                  {{"layers", 2}, {"batch", 1}, {"length", 8}, {"width", 256}},
                  {{"every block", {SLOWER, SAME, VALID}}, {"every second", {SLOWER, SAME, VALID}}}}},
       .agreement = tenfold::Agreement::exact_on_cpu()});
}
