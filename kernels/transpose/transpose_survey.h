#pragma once
// The transpose for pages that count it and time it.

#include "kernels/kernel_survey.h"
#include "kernels/transpose/transpose.h"

namespace tenfold::kernels {

struct TransposeSizes {
  int64_t rows, columns;
};

/// A rung on a matrix of random normal values.
inline KernelRun transpose_run(KernelMemory& memory, const TransposeSizes& sizes, int rung) {
  const auto [rows, columns] = sizes;
  const torch::Tensor in = memory.normal("in", {rows, columns}), out = memory.result("out", {columns, rows});
  return {.launch =
              [=, rows = rows, columns = columns](auto stream) {
                transpose(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), rows, columns, rung);
              },
          .right = [=] { return torch::equal(out, in.t()); },
          .bytes = 8.0 * static_cast<double>(in.numel())};
}

}  // namespace tenfold::kernels
