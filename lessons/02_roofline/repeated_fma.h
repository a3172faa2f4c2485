#pragma once
// k updates of each weight of an array, each one fused multiply-add (FMA): by scalar code, and by SIMD code for the
// vector registers that this CPU has. Nothing but k changes how much arithmetic there is for a byte.

#include <torch/torch.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <latch>
#include <type_traits>

namespace tenfold::inline lesson_02 {

/// `count` updates w = factor * w + summand, one after the other. With factor = 1 - rate and summand = rate * target
/// each is a step of gradient descent on (w - target)^2 / 2.
struct Updates {
  int64_t count;
  float factor, summand;
};

/// out[i] = in[i] after all updates, for i < weights. The arrays must not overlap.
using UpdateWeights = void (*)(float* out, const float* in, int64_t weights, Updates updates);

/// An FMA is finished after 4 clocks, and two begin in each clock: 8 must be in flight at a time to keep both units
/// busy. They have to belong to different weights, since each update of a weight waits for the one before.
inline constexpr int64_t kChains = 8;

inline constexpr int64_t kFloatBytes = 4;

template <int kLanes>
using Vector [[gnu::vector_size(kLanes * kFloatBytes)]] = float;

/// Keeps a float in a register of its own: without it compilers put neighbouring chains into one vector register.
[[gnu::always_inline]] inline void stay_scalar([[maybe_unused]] float& value) {
#if defined(__x86_64__)
  asm("" : "+x"(value));
#elif defined(__aarch64__)
  asm("" : "+w"(value));
#endif
}

/// The loop itself. Value is a float, or a vector of them: the same lines are then SIMD code.
template <class Value, int64_t chains>
[[gnu::always_inline]] inline void update_all(float* out, const float* in, int64_t weights, Updates updates) {
  constexpr int64_t kLanes = sizeof(Value) / kFloatBytes, kTogether = chains * kLanes;
  int64_t i = 0;
  for (; i + kTogether <= weights; i += kTogether) {
    Value w[chains], moved;
    for (int64_t c = 0; c < chains; ++c) {  // loaded once,
      std::memcpy(&moved, in + i + c * kLanes, sizeof moved);
      w[c] = moved;
    }
    for (int64_t update = 0; update < updates.count; ++update) {
#pragma GCC unroll 8  // an array stays in registers where its index is known
      for (Value& chain : w) {
        chain = chain * updates.factor + updates.summand;  // updated in registers,
        if constexpr (std::is_same_v<Value, float>) stay_scalar(chain);
      }
    }
    for (int64_t c = 0; c < chains; ++c) {  // stored once
      moved = w[c];
      std::memcpy(out + i + c * kLanes, &moved, sizeof moved);
    }
  }
  for (; i < weights; ++i) {  // what is left fills no register
    float w = in[i];
    for (int64_t update = 0; update < updates.count; ++update) w = w * updates.factor + updates.summand;
    out[i] = w;
  }
}

/// The trap: nobody reads what the loop computes, so the compiler removes the loop.
[[gnu::always_inline]] inline void forget_updates(float* out, const float* in, int64_t weights, Updates updates) {
  for (int64_t i = 0; i < weights; ++i) {
    [[maybe_unused]] float w = in[i];
    for (int64_t update = 0; update < updates.count; ++update) w = w * updates.factor + updates.summand;
    out[i] = in[i];
  }
}

/// The same updates by different code.
struct WaysToUpdate {
  int64_t lanes;  ///< floats in a vector register
  UpdateWeights scalar, simd, one_chain, forgotten;
};

// A function's instruction set is its own: the build need not know on which CPU it will run. Code that fuses the
// multiplication with the addition rounds once, other code twice, so that no CPU mixes the two.
#ifdef __x86_64__
[[gnu::target("fma")]] inline void scalar_fma(float* out, const float* in, int64_t weights, Updates updates) {
  update_all<float, kChains>(out, in, weights, updates);
}
[[gnu::target("fma")]] inline void one_chain_fma(float* out, const float* in, int64_t weights, Updates updates) {
  update_all<float, 1>(out, in, weights, updates);
}
[[gnu::target("avx2,fma")]] inline void simd_avx2(float* out, const float* in, int64_t weights, Updates updates) {
  update_all<Vector<8>, kChains>(out, in, weights, updates);
}
[[gnu::target("avx512f,fma")]] inline void simd_avx512(float* out, const float* in, int64_t weights, Updates updates) {
  update_all<Vector<16>, kChains>(out, in, weights, updates);
}
#endif
inline void scalar_portable(float* out, const float* in, int64_t weights, Updates updates) {
  update_all<float, kChains>(out, in, weights, updates);
}
inline void one_chain_portable(float* out, const float* in, int64_t weights, Updates updates) {
  update_all<float, 1>(out, in, weights, updates);
}
inline void simd_portable(float* out, const float* in, int64_t weights, Updates updates) {
  update_all<Vector<4>, kChains>(out, in, weights, updates);
}
inline void forgotten(float* out, const float* in, int64_t weights, Updates updates) {
  forget_updates(out, in, weights, updates);
}

/// For the widest vector registers of this CPU.
inline WaysToUpdate ways_to_update() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return {16, scalar_fma, simd_avx512, one_chain_fma, forgotten};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {8, scalar_fma, simd_avx2, one_chain_fma, forgotten};
#endif
  return {4, scalar_portable, simd_portable, one_chain_portable, forgotten};
}

/// The same on several threads of PyTorch's inter-op pool, which wait asleep: each takes its share of the weights, in
/// whole blocks. (at::parallel_for() uses the intra-op pool, and one thread in a program not compiled with OpenMP.)
inline void update_on_threads(int64_t threads, UpdateWeights update, float* out, const float* in, int64_t weights,
                              Updates updates) {
  constexpr int64_t kBlock = kChains * 16;  // what the widest vector code takes at a time
  const int64_t share = (weights / (kBlock * threads) + 1) * kBlock;
  const auto update_share = [=](int64_t thread) {
    const int64_t begin = thread * share, count = std::min(share, weights - begin);
    if (count > 0) update(out + begin, in + begin, count, updates);
  };
  std::latch done(threads - 1);
  for (int64_t thread = 1; thread < threads; ++thread) {
    at::launch([&, thread] {
      update_share(thread);
      done.count_down();
    });
  }
  update_share(0);
  done.wait();
}

}  // namespace tenfold::inline lesson_02
