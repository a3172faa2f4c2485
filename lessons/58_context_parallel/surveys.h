#pragma once
// What lesson 58 counts on more ranks than a machine has cores for: what a rank sends for a layer's attention, and how
// many scores it computes. The ranks are threads.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/rank_counts.h"
#include "common/models/gpt.h"
#include "context_bytes.h"
#include "context_gpt.h"

namespace tenfold::inline lesson_58 {

/// Scores that calls of ATen's attention have computed on this thread, of all heads and sequences.
inline int64_t& scores_on_this_thread() {
  thread_local int64_t scores = 0;
  return scores;
}

/// Counts them while it lives.
class CountScores {
 public:
  CountScores() : handle_(at::addThreadLocalCallback(callback())) { scores_on_this_thread() = 0; }
  ~CountScores() { at::removeCallback(handle_); }
  CountScores(const CountScores&) = delete;
  CountScores& operator=(const CountScores&) = delete;

 private:
  static at::RecordFunctionCallback callback() {
    return at::RecordFunctionCallback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
             if (std::string(call.name()) != "aten::_scaled_dot_product_flash_attention_for_cpu") return nullptr;
             const auto inputs = call.inputs();  // query, key, value, dropout, whether it is causal
             const torch::Tensor q = inputs[0].toTensor(), k = inputs[1].toTensor();
             const int64_t scores = inputs[4].toBool() ? k.size(2) * (k.size(2) + 1) / 2 : q.size(2) * k.size(2);
             scores_on_this_thread() += q.size(0) * q.size(1) * scores;
             return nullptr;
           })
        .needsInputs(true)
        .scopes({at::RecordScope::FUNCTION});
  }

  at::CallbackHandle handle_;
};

/// Of one rank, for one layer's attention.
struct RankCounts {
  std::map<std::string, Requests> asked;  ///< in forward and backward
  int64_t scores = 0;                     ///< in forward
};

/// By rank.
inline std::vector<RankCounts> count_attention(const GptOptions& options, int ranks, Scheme scheme) {
  std::vector<RankCounts> counts(static_cast<size_t>(ranks));
  on_counted_ranks(ranks, [&](int rank, const Group& group, RequestCounter& asked) {
    RankCounts& own = counts[static_cast<size_t>(rank)];
    const torch::Tensor qkv =
        torch::randn({options.batch, options.length / ranks, 3, options.heads, options.width / options.heads},
                     at::detail::createCPUGenerator(static_cast<uint64_t>(rank)))
            .requires_grad_();
    torch::Tensor attended;
    {
      const CountScores counting;
      attended = attention_over_ranks(qkv, scheme, group);
      own.scores = scores_on_this_thread();
    }
    attended.sum().backward();
    own.asked = asked.take();
  });
  return counts;
}

/// A look for each scheme, at 2, 4 and 8 ranks.
template <class Note>
std::vector<Look> looks_of_schemes(const Note& note) {
  std::vector<Look> looks;
  for (const auto& [name, scheme] : {std::pair{"ring", Scheme::ring},
                                     {"zigzag ring", Scheme::zigzag},
                                     {"gathered", Scheme::gathered},
                                     {"Ulysses", Scheme::ulysses}}) {
    looks.push_back({name, [note, scheme = scheme](const Trial& trial) {
                       const GptOptions options = gpt_options(trial);
                       for (const int ranks : {2, 4, 8}) {
                         const auto& counts = trial.shared<std::vector<RankCounts>>(  // by both surveys
                             std::to_string(static_cast<int>(scheme)) + " on " + std::to_string(ranks),
                             [&] { return count_attention(options, ranks, scheme); });
                         note(trial, ranks_text(ranks), counts, context_bytes(options, scheme, ranks));
                       }
                     }});
  }
  return looks;
}

/// Bytes that a rank sends for a layer in an update, over those of one (B, T, D).
inline std::vector<Look> sent_looks() {
  return looks_of_schemes(
      [](const Trial& trial, const std::string& on, const std::vector<RankCounts>& counts, const ContextBytes& of) {
        const auto stream = static_cast<double>(of.stream());
        int64_t most = 0;
        for (const RankCounts& rank : counts) most = std::max(most, sent_bytes_of(rank.asked, of.ranks));
        trial.note(on, static_cast<double>(most) / stream, "activations");
        trial.note(on + ", formula", static_cast<double>(of.layer_sent_bytes()) / stream, "activations");
      });
}

/// Scores that the ranks with the most and the fewest compute, over the ranks' mean.
inline std::vector<Look> work_looks() {
  return looks_of_schemes(
      [](const Trial& trial, const std::string& on, const std::vector<RankCounts>& counts, const ContextBytes& of) {
        int64_t most = 0, least = counts.at(0).scores, sum = 0;
        for (const RankCounts& rank : counts) {
          most = std::max(most, rank.scores);
          least = std::min(least, rank.scores);
          sum += rank.scores;
        }
        const double mean = static_cast<double>(sum) / static_cast<double>(of.ranks);
        trial.note(on + ", most", static_cast<double>(most) / mean, "of the mean");
        trial.note(on + ", least", static_cast<double>(least) / mean, "of the mean");
        trial.note(on + ", most by formula", of.most_scores() * static_cast<double>(of.ranks), "of the mean");
      });
}

}  // namespace tenfold::inline lesson_58
