// Lesson 41 - Shared memory
// What does a tile in shared memory buy, and what do its bank conflicts and barriers cost?
// Read lesson 40 first, then kernels/transpose, kernels/reduction and kernels/tile_copy: the kernels counted here.
#include <cmath>

#include "common/harness/lesson.h"
#include "kernels/kernel_survey.h"
#include "kernels/reduction/reduction.h"
#include "kernels/tile_copy/tile_copy.h"
#include "kernels/transpose/transpose_survey.h"

namespace {
using tenfold::KernelMemory;
using tenfold::KernelRun;
using tenfold::Setting;
using tenfold::Trial;
using torch::Tensor;
namespace kernels = tenfold::kernels;

constexpr Setting<int64_t> kRows{"rows", 256, "of the matrix transposed under the microscope"};
constexpr Setting<int64_t> kColumns{"columns", 256, "of the matrix transposed under the microscope"};
constexpr Setting<int64_t> kTimedSide{"timed_side", 8192, "rows and columns of the matrix transposed on a GPU"};
constexpr Setting<int64_t> kSummedFloats{"summed_floats", 65536, "floats added up under the microscope"};
constexpr Setting<int64_t> kCopiedFloats{"copied_floats", 8192, "floats copied under the microscope"};
constexpr Setting<int64_t> kTimedFloats{"timed_floats", int64_t{1} << 25, "floats copied or added up on a GPU"};

/// Notes each line as in lesson 40, and three totals that can be compared between kernels. A warp has 32 lanes, so 32
/// elements are what one request can serve.
void note_counts(const Trial& trial, const tenfold::simt::Report& report, int64_t elements) {
  note_accesses(trial, report);
  const double warps = static_cast<double>(elements) / 32;
  trial.note("all: sectors per 32 elements", static_cast<double>(report.sectors()) / warps, "sectors");
  trial.note("all: shared wavefronts per 32 elements", static_cast<double>(report.wavefronts()) / warps, "wavefronts");
  trial.note("all: block barriers per 1024 elements", static_cast<double>(report.barriers) / warps * 32, "barriers");
}

auto transpose(int rung) {
  return [=](const Trial& trial) {
    const kernels::TransposeSizes counted{trial.get(kRows), trial.get(kColumns)};
    const kernels::TransposeSizes timed{trial.get(kTimedSide), trial.get(kTimedSide)};
    const auto run = [=](KernelMemory& memory, const kernels::TransposeSizes& sizes) {
      return kernels::transpose_run(memory, sizes, rung);
    };
    note_counts(trial, count_and_time(trial, run, counted, timed), counted.rows * counted.columns);
  };
}

auto sum(int rung) {
  return [=](const Trial& trial) {
    const auto run = [=](KernelMemory& memory, int64_t count) -> KernelRun {
      const Tensor in = memory.normal("in", {count});
      const Tensor out = memory.result("out", {1});
      auto* const workspace = memory.zeroed<kernels::ReductionWorkspace>("workspace");
      const double allowed = 6 * kernels::reduction_error(count, rung);  // standard deviations of the rounding
      return {.launch =
                  [=](auto stream) {
                    kernels::reduce_sum(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), count, workspace,
                                        rung);
                  },
              .right = [=] { return std::abs(out.item<double>() - in.sum(torch::kDouble).item<double>()) <= allowed; },
              .bytes = 4.0 * static_cast<double>(count)};
    };
    const int64_t counted = trial.get(kSummedFloats);
    note_counts(trial, count_and_time(trial, run, counted, trial.get(kTimedFloats)), counted);
  };
}

/// No thread needs what another has loaded: here a tile has nothing to give.
auto copy(int rung) {
  return [=](const Trial& trial) {
    const auto run = [=](KernelMemory& memory, int64_t count) -> KernelRun {
      const Tensor in = memory.normal("in", {count});
      const Tensor out = memory.result("out", {count});
      return {.launch =
                  [=](auto stream) {
                    kernels::tile_copy(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), count, rung);
                  },
              .right = [=] { return torch::equal(out, in); },
              .bytes = 8.0 * static_cast<double>(count)};
    };
    const int64_t counted = trial.get(kCopiedFloats);
    note_counts(trial, count_and_time(trial, run, counted, trial.get(kTimedFloats)), counted);
  };
}
}  // namespace

int main(int argc, char** argv) {
  return tenfold::run(
      argc, argv,
      {.title = "Shared memory",
       .question = "What does a tile in shared memory buy, and what do its bank conflicts and barriers cost?",
       .version = 3,
       .settings = {kRows, kColumns, kTimedSide, kSummedFloats, kCopiedFloats, kTimedFloats},
       .surveys = {{"counted",
                    {{"transpose, no tile", transpose(1)},
                     {"transpose, square tile", transpose(2)},
                     {"transpose, padded tile", transpose(3)},
                     {"transpose, padded, 16 bytes", transpose(4)},
                     {"sum, atomics", sum(0)},
                     {"sum, interleaved tree", sum(1)},
                     {"sum, sequential tree", sum(2)},
                     {"sum, add while loading", sum(3)},
                     {"sum, shuffles", sum(4)},
                     {"sum, last block", sum(5)},
                     {"copy, straight", copy(0)},
                     {"copy, through a tile", copy(1)}}}}});
}
