#pragma once
// What an operator of LibTorch asks of a card, by its tensors and the kernels that LibTorch's sources and cuDNN's
// documents name: bytes that it must move, and products.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

#include "common/dry_gpu/rates.h"

namespace tenfold::dry {

/// Of one kernel, or of several that pass over the same tensors.
struct Demand {
  double bytes = 0;  ///< read and written, each once
  double flops = 0;  ///< of matrix products, convolutions and attention; other arithmetic is hidden by bytes
  at::ScalarType type = at::kFloat;  ///< of what is multiplied
  bool convolves = false;            ///< cuDNN's switch for TF32 counts, else cuBLAS's
  double again = 0;                  ///< bytes that are read twice: from memory if the L2 cache does not hold them
  double reordered = 0;              ///< bytes of kernels that put channels last and back, for tensor cores
};

/// The results are those that the operator has handed back. Of what it looks up (an embedding, an index) only the rows
/// that it touches are counted; of what is broadcast, what lies in memory.
std::vector<Demand> demands_of(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments,
                               const std::vector<c10::IValue>& results);

/// What it lasts at these rates: what takes longer, bytes or products. Which products may round to TF32 is asked of
/// LibTorch's flags as they are now.
double seconds_of(const Demand& demand, const Rates& rates);
/// One after the other.
double seconds_of(const std::vector<Demand>& kernels, const Rates& rates);

}  // namespace tenfold::dry
