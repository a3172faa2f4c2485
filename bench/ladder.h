#pragma once
// What the benchmarks of kernels/ share: the rungs of a kernel and what others offer for the same operation, checked
// and timed in turn in one program, by one clock. What is timed, at which shape and what it needs at the least says the
// kernel's case, kernels/NAME/NAME_case.h.
//
// With a GPU: device events around each launch; "cold" empties the L2 cache before it, "hot" repeats the launch. A
// ladder's contestants take turns, in another order each round, among them a plain copy of as many bytes: the ceiling
// of that minute. How often each is launched comes from the time of its first launch and from --budget. What does not
// fit into memory, or does not run on this GPU, is named with the reason. Without a GPU: every contestant runs once at
// a small shape, ours under the microscope, and its result is checked; nothing is timed.

#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/kernel_page/kernel_case.h"
#include "kernels/torch_binding.h"

// Where launchers and references are, in headers that the programs include themselves.
namespace tenfold::kernels {}
namespace tenfold::fused::reference {}

namespace tenfold::bench {

// What the programs launch rungs with, and what they compare them with.
namespace kernels = tenfold::kernels;
namespace simt = tenfold::simt;
namespace reference = tenfold::fused::reference;
using fused::data_of;
using fused::launch_where_they_are;
using fused::NamedTensors;
using torch::Tensor;

/// Where a ladder's tensors live, and how large they are.
struct Place {
  torch::Device device;
  bool timed;  ///< else results are checked and nothing more
  /// The pass's shape, or `to_check`, which is small enough for the microscope. Throws std::invalid_argument where the
  /// two name different sizes.
  simt::Shape pick(const simt::Pass& pass, const simt::Shape& to_check) const;
  /// Random normal values: zeros draw less power and run faster than any real data.
  Tensor normal(torch::IntArrayRef sizes, torch::ScalarType type = torch::kFloat) const {
    return torch::randn(sizes, torch::dtype(torch::kFloat).device(device)).to(type);
  }
};

/// One way to do the operation.
struct Contestant {
  std::string name;  ///< "rung 3", "ATen"
  /// Queues the work on the current stream; returns the results, in the order of Ladder::expected.
  std::function<std::vector<Tensor>()> work;
  /// Where the work overwrites its input: puts it back, before a check and before a timed launch (hot: the first of a
  /// row), so that all read the same values. Never timed.
  std::function<void()> prepare = {};
};

struct Ladder {
  std::string name;  ///< "softmax, bfloat16, 8192 x 4096"
  double bytes = 0;  ///< global memory traffic that the operation needs at the least
  double flops = 0;  ///< arithmetic that it needs by its formula; 0 where only bytes count
  std::vector<Tensor> expected;
  double tolerance = 0;  ///< right: abs(result - e) <= tolerance * (abs(e) + mean of abs(e)), e the expected value
  std::vector<Contestant> contestants;  ///< the others' first: ratios are to contestants[0]
  /// What is left out, with the reason: rungs that this GPU cannot run, or that are hopeless at this size.
  std::vector<std::pair<std::string, std::string>> skipped = {};
};

/// What the pass needs with values of this type: Ladder::bytes and Ladder::flops.
double least_bytes_of(const simt::Pass& pass, const simt::Shape& shape, torch::ScalarType type);
double flops_of(const simt::Pass& pass, const simt::Shape& shape, torch::ScalarType type);

/// Adds "rung FIRST" to "rung COUNT - 1".
void add_rungs(Ladder& ladder, int count, const std::function<std::vector<Tensor>(int rung)>& work, int first = 0);

/// Leaves out rungs `first` to `behind` - 1.
void skip_rungs(Ladder& ladder, int first, int behind, const std::string& reason);

/// The tensor's values in `type`, as a leaf that wants a gradient.
Tensor leaf(const Tensor& tensor, torch::ScalarType type);

/// The gradients of sum(out * grad). The graph behind `out` is kept, and walked again for each call.
std::vector<Tensor> gradients(const Tensor& out, const std::vector<Tensor>& inputs, const Tensor& grad);

/// The names and sizes that a ladder's name is made of: "softmax, Float, 8192 x 4096".
std::string ladder_name(const std::string& operation, torch::ScalarType type, torch::IntArrayRef sizes);

/// Each makes a ladder when it is its turn; the tensors of the one before are free again by then.
using Builders = std::vector<std::function<Ladder(const Place&)>>;

/// What a bench program's main() returns. Flags: --help says. Exit codes: 0; 1 when a result is wrong or a contestant
/// throws; 2 bad usage.
int run(int argc, char** argv, const Builders& build);
/// The same there instead of on the first GPU, if there is one.
int run_at(const Place& place, int argc, char** argv, const Builders& build);

}  // namespace tenfold::bench
