#pragma once
// Your answer to exercise 24. Build and check it with: ./tenfold exercise 24
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

using Shape = std::vector<int64_t>;

/// What a compiled graph takes, size by size: exactly this one, or, where there is none, any size of two or more.
using Guard = std::vector<std::optional<int64_t>>;

enum class Outcome {
  compiled,  ///< a graph was made for this call
  reused,    ///< by a graph that was there
  eager      ///< by no graph
};

/// What Dynamo keeps of one function: its graphs, and when each may be used again. All calls have equally many sizes.
class CompiledFunction {
 public:
  explicit CompiledFunction(size_t most_graphs = 8) : most_graphs_(most_graphs) {}

  /// A graph whose guard holds is used again. Else one is made, unless there are as many as may be: then the call stays
  /// eager.
  Outcome call(const Shape& shape) {
    for (const Guard& guard : graphs_) {
      if (holds(guard, shape)) return Outcome::reused;
    }
    if (graphs_.size() >= most_graphs_) return Outcome::eager;
    if (graphs_.empty()) {
      first_ = shape;
      varies_.assign(shape.size(), false);
    }
    Guard guard;
    for (size_t i = 0; i < shape.size(); ++i) {
      varies_[i] = varies_[i] || shape[i] != first_[i];
      const bool open = varies_[i] && shape[i] > 1;
      guard.push_back(open ? std::nullopt : std::optional(shape[i]));
    }
    graphs_.push_back(guard);
    return Outcome::compiled;
  }

 private:
  static bool holds(const Guard& guard, const Shape& shape) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (guard[i] ? shape[i] != *guard[i] : shape[i] < 2) return false;
    }
    return true;
  }

  size_t most_graphs_;
  std::vector<Guard> graphs_;
  Shape first_;               // of the first call
  std::vector<bool> varies_;  // sizes that were another one since
};

/// Steps after which compiling has saved as much time as it took, all in seconds; nothing where it never does.
inline std::optional<int64_t> steps_until_paid_back(double compiling, double eager_step, double compiled_step) {
  const double saved = eager_step - compiled_step;
  if (saved <= 0) return std::nullopt;
  return static_cast<int64_t>(std::ceil(compiling / saved));
}
