#pragma once
// Training in 16 bits: the setting of the lessons that have a case of it, on which cards it is left out, and how far
// two runs may be apart. Autocast itself is lessons/21_mixed_precision/autocast.h.

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

#include <string>

#include "common/measure/agreement.h"
#include "common/measure/trial.h"

namespace tenfold {

inline constexpr Setting<std::string> kPrecision{
    "precision", "float32", "of matmuls: float32, or bfloat16 under autocast", {"float32", "bfloat16"}};

/// Whether the trial's matmuls are in bfloat16. Skips the variant on a GPU that has no such instructions: before
/// compute capability 8.0 bfloat16 is computed as 32 bits, and what is trained there is fp16 with a scaler.
inline bool in_16_bits(const Trial& trial) {
  if (trial.get(kPrecision) != "bfloat16") return false;
#ifdef TENFOLD_WITH_CUDA
  if (trial.device.is_cuda() && at::cuda::getDeviceProperties(trial.device.index())->major < 8)
    trial.skip("bfloat16 takes compute capability 8.0 or more; on this card fp16 with a scaler is lesson 21");
#endif
  return true;
}

/// bfloat16 has 8 significant bits: rounding moves a number by up to 2^-9 of it, so two roundings of one number are up
/// to 2^-8 apart.
inline constexpr double kLastBitOfBfloat16 = 1.0 / 256;

/// Of two runs in 16 bits that add in another order or round in other places.
inline Agreement of_16_bits() { return Agreement::within(kLastBitOfBfloat16, "the last bit of bfloat16, 2^-8"); }

/// Of two runs of the same operators on the same numbers: bit for bit on a CPU. On a GPU some add in the order in which
/// blocks end.
inline Agreement exact_on_cpu_in_16_bits() {
  Agreement agreement = of_16_bits();
  agreement.exact_on_cpu_only = true;
  return agreement;
}

}  // namespace tenfold
