#pragma once
// The launcher of Hopper's rungs of flash_attention, which flash_attention() calls: see flash_attention.h.

#include "attention_tiles.cuh"
#include "flash_attention.h"

namespace tenfold::kernels {

/// flash_attention() by rung 6, 7 or 8, on a GPU of compute capability 9.0 or under the microscope: head_dim 64 or 128,
/// and every array of T begins at a multiple of 16 bytes. Throws std::invalid_argument for more blocks than a grid has.
template <class T, class Stream>
void flash_attention_hopper(Stream stream, T* out, float* logsumexp, const AttentionInput<T>& in,
                            const AttentionShape& shape, int rung);

}  // namespace tenfold::kernels
