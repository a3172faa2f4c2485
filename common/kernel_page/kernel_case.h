#pragma once
// What is known of a kernel before it runs: its rungs, its shapes, what it needs at the least, and how each of its
// passes is launched under the microscope. kernels/NAME/NAME_case.h says it once; the page, the benchmark and the model
// of its time read it there.

#include "common/microscope/device.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tenfold::simt {

using Shape = std::map<std::string, int64_t>;
/// Names and values of a shape, in the order in which they are read.
using Sizes = std::vector<std::pair<std::string, int64_t>>;

inline Shape shape_of(const Sizes& sizes) { return {sizes.begin(), sizes.end()}; }

/// One version of a kernel, in the order in which they are learnt.
struct Rung {
  std::string name;  ///< "tiled", two words at most
  std::string idea;  ///< what it adds to the one before, one sentence
};

/// What an operation needs by its formula, whatever the rung.
struct Work {
  double flops = 0;         ///< 0 where only bytes count
  int64_t least_bytes = 0;  ///< of global memory: inputs read once, outputs written once
};

/// Which of a GPU's peaks the arithmetic is held against; of most kernels only their bytes are.
enum class Peak { bytes, cuda_cores, tensor_cores, tensor_cores_int8, tensor_cores_fp8 };

enum class ValueType { float32, bfloat16, int8, e4m3 };

/// What is launched, timed and modelled by itself: the forward pass of a kernel, or its backward pass.
struct Pass {
  std::string name;                      ///< of the kernel, with more behind it where it has two: "softmax_backward"
  std::vector<std::string> rungs;        ///< names
  Sizes shape;                           ///< that is timed and modelled; every GPU has room for it
  ValueType type = ValueType::bfloat16;  ///< that is modelled: what takes the most memory in training is in 16 bits
  Peak peak = Peak::bytes;
  std::function<Work(const Shape& shape, int64_t value_bytes)> work;  ///< `value_bytes`: of an element
  /// Blocks of each launch that say what all of them do; 0 where all have to run.
  int64_t sampled_blocks = 4;
  /// Launches a rung (from 0) on buffers of the device that hold `type`.
  std::function<void(Device& device, const Shape& shape, int rung)> launch;
};

/// A kernel. One that is neither timed nor modelled has no passes.
struct KernelCase {
  std::string name;  ///< the stem
  std::string title;
  Sizes shape;  ///< that the page shows; small enough for a second under the microscope
  std::vector<Rung> rungs;
  std::vector<Pass> passes = {};
};

/// The names of the first `count` rungs; of all without it.
inline std::vector<std::string> names_of(const std::vector<Rung>& rungs,
                                         size_t count = std::numeric_limits<size_t>::max()) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(count, rungs.size()); ++i) names.push_back(rungs[i].name);
  return names;
}

/// Random normal values, the same each time for a seed, in all of these buffers, one after the other.
template <class T>
void fill_normal(uint32_t seed, std::initializer_list<Buffer<T>> buffers) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  for (const Buffer<T>& buffer : buffers)
    std::generate(buffer.begin(), buffer.end(), [&] { return static_cast<T>(normal(bits)); });
}

/// Random normal values that repeat after 64 Ki, in each of these buffers: one may have hundreds of millions.
template <class T>
void fill_repeating(std::initializer_list<Buffer<T>> buffers) {
  constexpr int64_t kPeriod = 1 << 16;
  for (const Buffer<T>& buffer : buffers) {
    std::mt19937 bits(1);
    std::normal_distribution<float> normal;
    const int64_t first = std::min(buffer.size(), kPeriod);
    std::generate_n(buffer.begin(), first, [&] { return static_cast<T>(normal(bits)); });
    for (int64_t from = first; from < buffer.size(); from += kPeriod)
      std::copy_n(buffer.begin(), std::min(kPeriod, buffer.size() - from), buffer.begin() + from);
  }
}

/// Whole numbers below `end`, neighbours far apart: ids, targets, places.
inline void fill_far_apart(const Buffer<int64_t>& buffer, int64_t end) {
  for (int64_t i = 0; i < buffer.size(); ++i) buffer[i] = i * 7919 % end;
}

}  // namespace tenfold::simt
