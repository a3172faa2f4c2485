#pragma once
// Which collectives each rank starts, for the checks of exercises: ranks are threads.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <ATen/record_function.h>

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/ranks/rank_threads.h"

namespace tenfold::test {

/// Of this thread: every collective is an operator of c10d.
inline thread_local std::vector<std::string> started_collectives;

/// Calls work(rank, group) on so many ranks that are threads; one that waits for ever is cut off by its group after 5
/// s. The names of the operators that each rank has started, "c10d::allreduce_". A rank that throws fails the test,
/// with `hint`.
template <class Work>
std::vector<std::vector<std::string>> collectives_of_ranks(int ranks, const std::string& hint, const Work& work) {
  std::vector<std::vector<std::string>> collectives(static_cast<size_t>(ranks));
  std::vector<std::string> failed(static_cast<size_t>(ranks));
  on_rank_threads(ranks, std::chrono::seconds(5), [&](int rank, const auto& group) {
    const auto at = static_cast<size_t>(rank);
    started_collectives.clear();
    const auto observer = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& op) -> std::unique_ptr<at::ObserverContext> {
          if (std::string_view(op.name()).starts_with("c10d::")) started_collectives.emplace_back(op.name());
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
    try {
      work(rank, *group);
    } catch (const std::exception& error) {
      failed[at] = error.what();
    }
    at::removeCallback(observer);
    collectives[at] = started_collectives;
  });
  for (const std::string& failure : failed) EXPECT_EQ(failure.substr(0, failure.find('\n')), "") << hint;
  return collectives;
}

}  // namespace tenfold::test
