#pragma once
// What an operator of LibTorch asks of a card, by its tensors alone: bytes that it must move, and products.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

#include "common/dry_gpu/rates.h"

namespace tenfold::dry {

struct Demand {
  double bytes = 0;  ///< read and written
  double flops = 0;  ///< of matrix products, convolutions and attention; other arithmetic is hidden by bytes
  at::ScalarType type = at::kFloat;  ///< of what is multiplied
  bool convolves = false;            ///< cuDNN's switch for TF32 counts, else cuBLAS's
};

/// The results are those that the operator has handed back. Of what it looks up (an embedding, an index) only the rows
/// that it touches are counted; of what is broadcast, what lies in memory.
Demand demand_of(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments,
                 const std::vector<c10::IValue>& results);

/// What it lasts at these rates: what takes longer, bytes or products. Which products may round to TF32 is asked of
/// LibTorch's flags as they are now.
double seconds_of(const Demand& demand, const Rates& rates);

}  // namespace tenfold::dry
