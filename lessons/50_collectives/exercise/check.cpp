#include <gtest/gtest.h>

#include EXERCISE

#include <ATen/record_function.h>

#include "common/ranks/rank_threads.h"

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>

namespace {

using torch::Tensor;

/// The tensor of one rank, before: another decimal place for each rank, so that a wrong sum shows who is missing.
Tensor numbers_of(int rank, int64_t size) {
  double place = 1;
  for (int i = 0; i < rank; ++i) place *= 10;
  return torch::full({size}, place, torch::kDouble);
}

/// Numbers that this thread has sent, message by message.
thread_local std::vector<int64_t> sent;

struct Outcome {
  std::vector<Tensor> tensors;             ///< of each rank, afterwards
  std::vector<std::vector<int64_t>> sent;  ///< of each rank
};

/// What the answer makes of them, on ranks that are threads. One that waits for ever is cut off by the group.
Outcome after(int ranks, int64_t size) {
  Outcome outcome{std::vector<Tensor>(static_cast<size_t>(ranks)),
                  std::vector<std::vector<int64_t>>(static_cast<size_t>(ranks))};
  std::vector<std::string> failed(static_cast<size_t>(ranks));
  tenfold::on_rank_threads(ranks, std::chrono::seconds(5), [&](int rank, const auto& group) {
    const auto at = static_cast<size_t>(rank);
    outcome.tensors[at] = numbers_of(rank, size);
    sent.clear();
    const auto observer = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
          if (std::string_view(call.name()) == "c10d::send")
            sent.push_back(call.inputs()[0].toTensorVector().at(0).numel());
          return nullptr;
        })
            .needsInputs(true)
            .scopes({at::RecordScope::FUNCTION}));
    try {
      ring_reduce_scatter(outcome.tensors[at], *group);
    } catch (const std::exception& error) {
      failed[at] = error.what();
    }
    at::removeCallback(observer);
    outcome.sent[at] = sent;
  });
  for (const auto& failure : failed) {
    EXPECT_EQ(failure.substr(0, failure.find('\n')), "")
        << "hint: in each step every rank sends to the next one and receives from the previous one, parts of one size";
  }
  return outcome;
}

/// A sum of 1, 10, 100, ... for each rank that is in it once.
void expect_own_parts_summed(int ranks, int64_t size) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += numbers_of(rank, 1).item<double>();
  const Outcome outcome = after(ranks, size);
  for (int rank = 0; rank < ranks; ++rank) {
    const Tensor part = part_of(outcome.tensors[static_cast<size_t>(rank)], rank, ranks);
    for (int64_t i = 0; i < part.numel(); ++i) {
      ASSERT_EQ(part[i].item<double>(), sum)
          << "on rank " << rank << " of " << ranks << ", where rank r has given 10 to the power of r\n"
          << "hint: a digit 0 is a rank that is missing in part 'rank', a digit 2 one that was added twice. Which part "
             "does each step add to, and which is the last one?";
    }
  }
}

TEST(Exercise50, TwoRanksHaveTheirHalves) { expect_own_parts_summed(2, 6); }

TEST(Exercise50, FourRanksHaveTheirQuarters) { expect_own_parts_summed(4, 8); }

TEST(Exercise50, PartsMayDifferInSize) { expect_own_parts_summed(3, 7); }

TEST(Exercise50, EachStepSendsOnePart) {
  for (const auto& messages : after(4, 40).sent) {
    EXPECT_EQ(messages, std::vector<int64_t>(3, 10))
        << "hint: N - 1 messages of one part each; whoever sends whole tensors, or to each rank, sends more";
  }
}

}  // namespace
