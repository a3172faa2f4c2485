// Lesson 50 - Collectives
// What does an all-reduce send, and when does a ring, a tree or a star take less time for it?
// Read collectives.h first: the ring, the tree and the star, on send and receive. The program trains a GPT on several
// ranks and averages its gradients by each of them.
#include "common/harness/lesson.h"
#include "bandwidth_survey.h"
#include "collectives.h"
#include "common/models/gpt.h"
#include "flat_training.h"
#include "message_costs.h"
#include "message_survey.h"
#include "prediction.h"

namespace {
using tenfold::Algorithm;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// Divided before the sum: 16-bit numbers could overflow in it.
void mean_by(const tenfold::AllReduce& all_reduce, const Tensor& gradients, c10d::ProcessGroup& group) {
  gradients.div_(group.getSize());
  all_reduce(gradients, group);
}

/// Without the technique: c10d's own all-reduce.
Step averaged_by_c10d(const Trial& trial) {
  return train_in_parallel(trial, [](const Tensor& gradients, c10d::ProcessGroup& group) {
    mean_by(tenfold::c10d_all_reduce, gradients, group);
  });
}

/// With it: the same sum from our own messages.
Step averaged_by(const Trial& trial, Algorithm algorithm) {
  needs_two_ranks(trial);
  return train_in_parallel(trial, [algorithm](const Tensor& gradients, c10d::ProcessGroup& group) {
    mean_by(tenfold::all_reduce_by(algorithm), gradients, group);
  });
}

/// A trap: each rank divides what it gives, and all divide the sum again.
Step divided_twice(const Trial& trial) {
  needs_two_ranks(trial);
  return train_in_parallel(trial, [](const Tensor& gradients, c10d::ProcessGroup& group) {
    mean_by(tenfold::ring_all_reduce, gradients, group);
    gradients.div_(group.getSize());
  });
}

/// A trap: sums over a rank's tokens are added up, and each rank divides by the number of its own tokens, not of all.
Step own_count(const Trial& trial) {
  needs_two_ranks(trial);
  const double tokens =
      static_cast<double>(share_of_rank(trial, tenfold::gpt::kBatch) * trial.get(tenfold::gpt::kLength));
  return train_in_parallel(trial, [tokens](const Tensor& gradients, c10d::ProcessGroup& group) {
    gradients.mul_(tokens);
    tenfold::ring_all_reduce(gradients, group);
    gradients.div_(tokens);
  });
}

tenfold::Variant variant_of(Algorithm algorithm) {
  return {tenfold::name_of(algorithm), [algorithm](const Trial& trial) { return averaged_by(trial, algorithm); },
          tenfold::predict(algorithm)};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  const Place any_ranks = {.mesh = {{kDataParallel, kAllRanks}}};
  std::vector<Survey> surveys;
  for (const int ranks : {2, 3, 4, 8}) surveys.push_back(message_survey(ranks));
  surveys.push_back({.name = "bandwidth", .looks = bandwidth_looks(), .place = any_ranks});
  return run(
      argc, argv,
      {.title = "Collectives",
       .question = "What does an all-reduce send, and when does a ring, a tree or a star take less time for it?",
       .workload = gpt_workload,
       .version = 4,
       .baseline = {"c10d all-reduce", averaged_by_c10d},
       .most_bytes = flat_most_bytes,
       .techniques = {variant_of(Algorithm::ring),
                      variant_of(Algorithm::tree),
                      variant_of(Algorithm::star),
                      variant_of(Algorithm::doubling),
                      {"divided twice", divided_twice},
                      {"own count", own_count}},
       .cases = {{.name = "gpt",
                  .expected = {{"ring", SAME_MEMORY},
                               {"tree", SAME_MEMORY},
                               {"star", SAME_MEMORY},
                               {"doubling", SAME_MEMORY},
                               {"divided twice", TRAP},
                               {"own count", TRAP}},
                  .place = any_ranks},
                 // Much to send, little to compute: few tokens through wide layers.
                 {.name = "large message",
                  .settings = {gpt::kLength(4), gpt::kWidth(192, 1024, 1024), gpt::kHeads(4, 8, 8)},
                  .expected =
                      {{"ring", LARGER}, {"tree", {SLOWER, LARGER}}, {"star", {SLOWER, LARGER}}, {"doubling", LARGER}},
                  .place = any_ranks},
                 // Latency decides, and a ring has no advantage.
                 {.name = "small message",
                  .settings = {gpt::kLength(8), gpt::kLayers(1), gpt::kWidth(16), gpt::kHeads(2)},
                  .expected = {{"ring", {}}, {"tree", {}}, {"star", {}}, {"doubling", {}}},
                  .place = any_ranks}},
       .surveys = surveys,
       .headline = Headline{"large message", "ring"},
       // On 2 ranks nothing was seen, on 4 and 8 up to 1.3e-7.
       .agreement = Agreement::within(1e-4, "sums are taken in another order")});
}
