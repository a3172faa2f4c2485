#pragma once
// The launcher of Hopper's rungs of hgemm, which hgemm() calls: see hgemm.h.

#include <cstdint>

namespace tenfold::kernels {

/// C (m, n) = A (m, k) * B (k, n) by one of rungs 5 to 9, on a GPU of compute capability 9.0 or under the microscope. k
/// and n must be divisible by 8 and the pointers by 16. Throws std::invalid_argument for more tiles than it can count.
template <class T, class Stream>
void hgemm_hopper(Stream stream, T* c, const T* a, const T* b, int64_t m, int64_t n, int64_t k, int rung);

}  // namespace tenfold::kernels
