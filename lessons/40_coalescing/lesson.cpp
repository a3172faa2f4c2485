// Lesson 40 - Coalescing
// What does a warp's load or store cost when its 32 lanes do not access neighbouring addresses?
// Read kernels/strided_copy and kernels/transpose first: the kernels that are counted here, and timed on a GPU.
#include "common/harness/lesson.h"
#include "kernels/kernel_survey.h"
#include "kernels/strided_copy/strided_copy.h"
#include "kernels/transpose/transpose_survey.h"

namespace {
using tenfold::KernelMemory;
using tenfold::KernelRun;
using tenfold::Setting;
using tenfold::Trial;
using torch::Tensor;
namespace kernels = tenfold::kernels;

constexpr Setting<int64_t> kCountedFloats{"counted_floats", 8192, "floats copied under the microscope"};
constexpr Setting<int64_t> kTimedFloats{"timed_floats", int64_t{1} << 25,
                                        "floats copied on a GPU; 128 MiB are more than an L2"};
constexpr Setting<int64_t> kRows{"rows", 256, "of the matrix transposed under the microscope"};
constexpr Setting<int64_t> kColumns{"columns", 256, "of the matrix transposed under the microscope"};
constexpr Setting<int64_t> kTimedSide{"timed_side", 8192, "rows and columns of the matrix transposed on a GPU"};

/// Copies floats that lie `stride` apart, from the one at `offset` on, to floats that lie side by side.
auto copy(int64_t stride, int64_t offset = 0) {
  return [=](const Trial& trial) {
    const auto run = [=](KernelMemory& memory, int64_t count) -> KernelRun {
      const Tensor in = memory.normal("in", {offset + count * stride});
      const Tensor out = memory.result("out", {count});
      return {.launch =
                  [=](auto stream) {
                    kernels::strided_copy(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), count, stride,
                                          offset);
                  },
              .right = [=] { return torch::equal(out, in.slice(0, offset, offset + count * stride, stride)); },
              .bytes = 8.0 * static_cast<double>(count)};
    };
    note_accesses(trial, count_and_time(trial, run, trial.get(kCountedFloats), trial.get(kTimedFloats)));
  };
}

/// A transpose must walk one matrix by rows and the other by columns: here one side pays, whichever it is.
auto transpose(int rung) {
  return [=](const Trial& trial) {
    const kernels::TransposeSizes counted{trial.get(kRows), trial.get(kColumns)};
    const kernels::TransposeSizes timed{trial.get(kTimedSide), trial.get(kTimedSide)};
    const auto run = [=](KernelMemory& memory, const kernels::TransposeSizes& sizes) {
      return kernels::transpose_run(memory, sizes, rung);
    };
    note_accesses(trial, count_and_time(trial, run, counted, timed));
  };
}
}  // namespace

int main(int argc, char** argv) {
  return tenfold::run(
      argc, argv,
      {.title = "Coalescing",
       .question = "What does a warp's load or store cost when its 32 lanes do not access neighbouring addresses?",
       .version = 3,
       .core = true,
       .settings = {kCountedFloats, kTimedFloats, kRows, kColumns, kTimedSide},
       .surveys = {{"counted",
                    {{"copy, neighbours", copy(1)},
                     {"copy, shifted by one", copy(1, 1)},
                     {"copy, every 2nd", copy(2)},
                     {"copy, every 8th", copy(8)},
                     {"copy, every 32nd", copy(32)},
                     {"transpose, reads side by side", transpose(0)},
                     {"transpose, writes side by side", transpose(1)},
                     // Through a tile in shared memory both sides are side by side. Lesson 41 is about that tile.
                     {"transpose, both", transpose(3)}}}}});
}
