// Lesson 32 - Caching allocator
// What do batches of different lengths do to the memory of a GPU, and what keeps it from breaking into pieces?
// Read train_on() and the variants below it: they differ in how long a batch is, in what comes first, and in what the
// allocator is told. caching_allocator.h reads what it did; allocator_survey.h makes the card small.
#include "common/harness/lesson.h"
#include "allocator_survey.h"
#include "caching_allocator.h"
#include "common/measure/dry.h"
#include "common/measure/memory.h"
#include "length_training.h"
#include "prediction.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// One update on a batch of `length` tokens, padded to `padded`.
Tensor train_on(LengthTraining& work, int64_t length, int64_t padded) {
  auto [ids, targets] = work.next_batch(length, padded);  // (B, padded) each
  work.gpt.optimizer->zero_grad();
  Tensor loss = work.gpt.model->loss(work.gpt.model->hidden(ids), targets);
  loss.backward();
  RECORD_USER_SCOPE("update");
  work.gpt.optimizer->step();
  return loss.detach();
}

/// A round is measured as one step: `train` has its batches, one after the other.
template <class Train>
Step rounds(const Trial& trial, const std::string& order, Train train) {
  auto work = std::make_shared<LengthTraining>(trial, order);
  return {.items = work->tokens_of_round(), .parameters = work->gpt.parameters(), .update = [work, train]() mutable {
            Tensor sum = torch::zeros({}, work->device);
            const std::vector<int64_t> lengths = work->next_lengths();
            for (const int64_t length : lengths) sum += train(*work, length);
            return sum / static_cast<double>(lengths.size());
          }};
}

Step in_order(const Trial& trial, const std::string& order) {
  return rounds(trial, order, [](LengthTraining& work, int64_t length) { return train_on(work, length, length); });
}

Step as_they_come(const Trial& trial) { return in_order(trial, trial.get(kOrder)); }

/// Fewer sizes: a batch is padded, and fits into the blocks of others.
Step rounded_lengths(const Trial& trial) {
  return rounds(trial, trial.get(kOrder),
                [](LengthTraining& work, int64_t length) { return train_on(work, length, work.rounded(length)); });
}

/// Preallocates: what is shorter is cut from the blocks of the longest batch.
Step longest_first(const Trial& trial) {
  return rounds(trial, trial.get(kOrder), [is_first = true](LengthTraining& work, int64_t length) mutable {
    if (std::exchange(is_first, false)) work.run_longest();
    return train_on(work, length, length);
  });
}

/// Fewer sizes, chosen by the allocator: requests are rounded up to a quarter of a power of two.
constexpr const char* kRoundSizes = "roundup_power2_divisions:4";

Step round_sizes(const Trial& trial) {
  need_cache(trial);
  Step step = as_they_come(trial);
  step.update = [update = step.update] {
    const AllocatorSettings settings(kRoundSizes);
    return update();
  };
  return step;
}

/// One segment that grows where it ends, instead of one for each size. Said when the process starts.
constexpr const char* kExpandable = "expandable_segments:True";

Step expandable_segments(const Trial& trial) {
  need_cache(trial);
  return as_they_come(trial);
}

/// CUDA's own pool in place of LibTorch's allocator.
Step cuda_malloc_async(const Trial& trial) {
  need_cache(trial);
  if (dry_card()) trial.skip("not on a dry GPU: what the driver's pool keeps of freed memory is not known");
  return as_they_come(trial);
}

/// The mistake: the cache is given back after each batch.
Step empty_cache(const Trial& trial) {
  need_cache(trial);
  return rounds(trial, trial.get(kOrder), [](LengthTraining& work, int64_t length) {
    Tensor loss = train_on(work, length, length);
    release_cached_memory(work.device);
    return loss;
  });
}

OtherProcess started_with(const std::string& settings) { return {.environment = {{"PYTORCH_ALLOC_CONF", settings}}}; }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const auto ordered = [](const std::string& order) {
    return [order](const Trial& trial) { return in_order(trial, order); };
  };
  const auto of_speeches = [](const std::string& order) -> std::vector<Assignment> {
    return {kOrder(order),         kBatches(6, 16, 16),       gpt::kBatch(4, 8, 16),       gpt::kLayers(1, 2, 2),
            gpt::kHeads(2, 8, 12), gpt::kWidth(32, 512, 768), gpt::kLength(256, 512, 1024)};
  };
  return run(
      argc, argv,
      {.title = "Caching allocator",
       .question = "What do batches of different lengths do to the memory of a GPU, and what keeps it from breaking "
                   "into pieces?",
       .workload = gpt_workload,
       .version = 2,
       .settings = {kOrder, kBatches, kMultiple, kRoom},
       .baseline = {"as they come", as_they_come},
       .most_bytes = most_bytes,
       .techniques = {{"rounded lengths", rounded_lengths, predict_rounded,
                       Agreement::within(1e-4, "padded rows are summed in another order")},
                      {"longest first", longest_first, predict_same_tensors},
                      {"round sizes", round_sizes},
                      {"expandable segments", expandable_segments, predict_expandable, {}, started_with(kExpandable)},
                      {"cudaMallocAsync", cuda_malloc_async, nullptr, {}, started_with("backend:cudaMallocAsync")},
                      {"empty_cache", empty_cache}},
       // One length: whatever comes second finds the blocks of what came first.
       .cases = {{"gpt", {}, {{"rounded lengths", SAME_MEMORY}, {"longest first", SAME_MEMORY}, {"round sizes", {}}}},
                 {.name = "reserved",
                  .settings = of_speeches("shuffled"),
                  .expected = {{"rounded lengths", SLOWER, on_cuda()},
                               {"longest first", SAME_MEMORY, on_cuda(SMALLER)},
                               {"round sizes", {}},
                               {"expandable segments", {}, on_cuda(SMALLER)},
                               {"cudaMallocAsync", {}, on_cuda(SMALLER)},
                               {"empty_cache", {}, on_cuda(mistake(SLOWER))}},
                  .judged_peak = "reserved"}},
       .surveys = {{"driver calls",
                    driver_call_looks({{"as they come", as_they_come},
                                       {"rounded lengths", rounded_lengths},
                                       {"longest first", longest_first},
                                       {"round sizes", as_they_come, kRoundSizes},
                                       {"expandable segments", as_they_come, kExpandable},
                                       {"garbage collection", as_they_come, "garbage_collection_threshold:0.8"},
                                       {"max_split_size", as_they_come, "max_split_size_mb:64"},
                                       {"empty_cache", empty_cache},
                                       {"one length", ordered("equal")}}),
                    of_speeches("drawn"),
                    /*of_memory=*/true},
                   {"least card",
                    least_card_looks({{"shuffled", ordered("shuffled")},
                                      {"rising", ordered("rising")},
                                      {"falling", ordered("falling")},
                                      {"rounded lengths", rounded_lengths},
                                      {"longest first", longest_first},
                                      {"expandable segments", as_they_come, kExpandable}}),
                    of_speeches("shuffled"),
                    /*of_memory=*/true}},
       .headline = Headline{"reserved", "longest first"}});
}
