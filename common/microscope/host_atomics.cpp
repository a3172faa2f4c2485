// C++ atomics of host code that was compiled with the microscope's flags, such as a shared_ptr's counter: done, not
// counted. The names are ThreadSanitizer's; memory order is always sequential.
#include <cstdint>

#ifndef __SANITIZE_THREAD__  // else the real ThreadSanitizer is linked

// NOLINTBEGIN(bugprone-reserved-identifier): the names are the compiler's
#define TENFOLD_ATOMICS(bits)                                                                                         \
  extern "C" {                                                                                                        \
  using a##bits = uint##bits##_t;                                                                                     \
  a##bits __tsan_atomic##bits##_load(const volatile a##bits* p, int);                                                 \
  void __tsan_atomic##bits##_store(volatile a##bits* p, a##bits v, int);                                              \
  a##bits __tsan_atomic##bits##_exchange(volatile a##bits* p, a##bits v, int);                                        \
  a##bits __tsan_atomic##bits##_fetch_add(volatile a##bits* p, a##bits v, int);                                       \
  a##bits __tsan_atomic##bits##_fetch_sub(volatile a##bits* p, a##bits v, int);                                       \
  a##bits __tsan_atomic##bits##_fetch_and(volatile a##bits* p, a##bits v, int);                                       \
  a##bits __tsan_atomic##bits##_fetch_or(volatile a##bits* p, a##bits v, int);                                        \
  a##bits __tsan_atomic##bits##_fetch_xor(volatile a##bits* p, a##bits v, int);                                       \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile a##bits* p, a##bits* c, a##bits v, int, int);            \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile a##bits* p, a##bits* c, a##bits v, int, int);              \
  a##bits __tsan_atomic##bits##_load(const volatile a##bits* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); } \
  void __tsan_atomic##bits##_store(volatile a##bits* p, a##bits v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); } \
  a##bits __tsan_atomic##bits##_exchange(volatile a##bits* p, a##bits v, int) {                                       \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                               \
  }                                                                                                                   \
  a##bits __tsan_atomic##bits##_fetch_add(volatile a##bits* p, a##bits v, int) {                                      \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                                   \
  a##bits __tsan_atomic##bits##_fetch_sub(volatile a##bits* p, a##bits v, int) {                                      \
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                                   \
  a##bits __tsan_atomic##bits##_fetch_and(volatile a##bits* p, a##bits v, int) {                                      \
    return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                                   \
  a##bits __tsan_atomic##bits##_fetch_or(volatile a##bits* p, a##bits v, int) {                                       \
    return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);                                                                 \
  }                                                                                                                   \
  a##bits __tsan_atomic##bits##_fetch_xor(volatile a##bits* p, a##bits v, int) {                                      \
    return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                                   \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile a##bits* p, a##bits* c, a##bits v, int, int) {           \
    return __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                           \
  }                                                                                                                   \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile a##bits* p, a##bits* c, a##bits v, int, int) {             \
    return __atomic_compare_exchange_n(p, c, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                            \
  }                                                                                                                   \
  }
TENFOLD_ATOMICS(8)
TENFOLD_ATOMICS(16)
TENFOLD_ATOMICS(32)
TENFOLD_ATOMICS(64)
#undef TENFOLD_ATOMICS

extern "C" {
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_thread_fence(int /*order*/) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int /*order*/) {}
}
// NOLINTEND(bugprone-reserved-identifier)
#endif
