#pragma once
// Messages of each all-reduce among ranks that are threads: counted as c10d is asked for them, next to the formula.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/rank_counts.h"
#include "common/ranks/rank_threads.h"
#include "message_costs.h"

namespace tenfold::inline lesson_50 {

/// Counts what this thread sends and receives through c10d while it lives: each is an operator with tensors.
class CountMessages {
 public:
  CountMessages()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(&CountMessages::note).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {
    counted = {};
  }
  ~CountMessages() { at::removeCallback(handle_); }
  CountMessages(const CountMessages&) = delete;
  CountMessages& operator=(const CountMessages&) = delete;

  static MessageCosts so_far() { return counted; }

 private:
  static std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& call) {
    const std::string_view name = call.name();
    const bool sends = name == "c10d::send";
    if (!sends && name != "c10d::recv_") return nullptr;
    int64_t bytes = 0;
    for (const torch::Tensor& tensor : call.inputs()[0].toTensorVector())
      bytes += static_cast<int64_t>(tensor.nbytes());
    (sends ? counted.sent_bytes : counted.received_bytes) += bytes;
    if (sends) ++counted.sent_messages;
    return nullptr;
  }

  static inline thread_local MessageCosts counted;
  at::CallbackHandle handle_;
};

/// What each rank has sent and received in one all-reduce of so many numbers.
inline std::vector<MessageCosts> counted_messages(Algorithm algorithm, int ranks, int64_t numbers) {
  std::vector<MessageCosts> of_ranks(static_cast<size_t>(ranks));
  on_rank_threads(ranks, std::chrono::seconds(60), [&](int rank, const auto& group) {
    const torch::Tensor tensor = torch::ones({numbers});
    const CountMessages counting;
    all_reduce_by(algorithm)(tensor, *group);
    of_ranks[static_cast<size_t>(rank)] = CountMessages::so_far();
  });
  return of_ranks;
}

/// A size that neither 2 nor 3 divides: parts of the ring differ by one number.
inline constexpr int64_t kSurveyNumbers = 100'003;

/// Notes the busiest rank's counts next to the formula's, and how many ranks are off theirs.
inline void note_messages(const Trial& trial, Algorithm algorithm, int ranks) {
  const std::vector<MessageCosts> of_ranks = counted_messages(algorithm, ranks, kSurveyNumbers);
  MessageCosts most;
  int off = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const MessageCosts& counted = of_ranks[static_cast<size_t>(rank)];
    most.sent_bytes = std::max(most.sent_bytes, counted.sent_bytes);
    most.received_bytes = std::max(most.received_bytes, counted.received_bytes);
    most.sent_messages = std::max(most.sent_messages, counted.sent_messages);
    if (counted != costs_of_rank(algorithm, rank, ranks, kSurveyNumbers)) ++off;
  }
  const MessageCosts formula = busiest(algorithm, ranks, kSurveyNumbers);
  const auto note = [&](const char* name, int64_t value, const char* unit) {
    trial.note(name, static_cast<double>(value), unit);
  };
  note("sent", most.sent_bytes, "bytes");
  note("sent, by formula", formula.sent_bytes, "bytes");
  note("received", most.received_bytes, "bytes");
  note("received, by formula", formula.received_bytes, "bytes");
  note("messages sent", most.sent_messages, "");
  note("messages, by formula", formula.sent_messages, "");
  trial.note("sent / tensor", static_cast<double>(most.sent_bytes) / (4.0 * kSurveyNumbers), "x");
  note("ranks off the formula", off, "");
}

/// Of so many ranks, a look for each algorithm.
inline Survey message_survey(int ranks) {
  Survey survey{.name = "bytes on " + ranks_text(ranks), .looks = {}};
  for (const Algorithm algorithm : kAlgorithms) {
    survey.looks.push_back(
        {name_of(algorithm), [algorithm, ranks](const Trial& trial) { note_messages(trial, algorithm, ranks); }});
  }
  return survey;
}

}  // namespace tenfold::inline lesson_50
