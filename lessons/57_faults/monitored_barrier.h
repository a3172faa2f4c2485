// installs as <tenfold/monitored_barrier.h>
#pragma once
// Who is missing? A collective that fails says that a connection broke or that time ran out, not which rank is to
// blame. Here each rank leaves a key in the store, and the others see whose is not there.

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tenfold {

/// The ranks that have not called this within `wait`, with the same `round`. A round's name is used once: the keys
/// stay. Returns as soon as nobody is missing. Throws std::runtime_error when the store itself is gone.
inline std::vector<int> missing_ranks(c10d::Store& store, const std::string& round, int rank, int ranks,
                                      std::chrono::milliseconds wait) {
  const auto key = [&](int of) { return "monitored_barrier/" + round + "/" + std::to_string(of); };
  const auto until = std::chrono::steady_clock::now() + wait;
  std::vector<int> missing;
  try {
    store.set(key(rank), std::vector<uint8_t>{1});
    for (int other = 0; other < ranks; ++other) {
      bool came = store.check({key(other)});
      while (!came && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        came = store.check({key(other)});
      }
      if (!came) missing.push_back(other);
    }
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw std::runtime_error(
        "the store does not answer, so the process that serves it is gone (the launcher, or rank "
        "0 where that serves it): " +
        text.substr(0, text.find('\n')));
  }
  return missing;
}

/// A barrier that names who did not come. It costs some round trips to the store for each rank: at the start, and where
/// a collective has failed, not in every step. Throws std::runtime_error "rank 2 did not come to 'start' within 5000
/// ms", or of the store as above.
inline void monitored_barrier(c10d::Store& store, const std::string& round, int rank, int ranks,
                              std::chrono::milliseconds wait) {
  std::string names;
  for (const int missing : missing_ranks(store, round, rank, ranks, wait))
    names += (names.empty() ? "rank " : ", rank ") + std::to_string(missing);
  if (!names.empty())
    throw std::runtime_error(names + " did not come to '" + round + "' within " + std::to_string(wait.count()) + " ms");
}

}  // namespace tenfold
