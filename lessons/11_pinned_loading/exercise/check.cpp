#include <gtest/gtest.h>

#include EXERCISE

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "tests/support/gate.h"

namespace {

using tenfold::HostStream;
using tenfold::test::Gate;
using namespace std::chrono_literals;

/// A buffer that was given back while a copy out of it waits at `gate`.
int taken_and_sent(PinnedPool& pool, HostStream& stream, const std::shared_ptr<Gate>& gate) {
  const int buffer = pool.take();
  stream.run([gate] { gate->wait(); });
  pool.reading(buffer, stream.record());
  pool.give_back(buffer);
  return buffer;
}

TEST(Exercise11, FreeBuffersAreUsedAgain) {
  PinnedPool pool(4);
  for (int i = 0; i < 8; ++i) {
    const int buffer = pool.take();
    EXPECT_EQ(buffer, 0) << "hint: buffer 0 was given back and nobody reads it";
    if (buffer != 0) break;
    pool.give_back(buffer);
  }
  EXPECT_EQ(pool.locked(), 1) << "hint: locking memory is what costs; lock a new buffer only when none is free";
}

TEST(Exercise11, WhatTheHostHoldsIsNotHandedOutTwice) {
  PinnedPool pool(3);
  const int first = pool.take(), second = pool.take();
  EXPECT_NE(first, second) << "hint: the first buffer was not given back yet";
  pool.give_back(second);
  EXPECT_EQ(pool.take(), second) << "hint: this one was given back, the first one was not";
}

TEST(Exercise11, BuffersThatCopiesReadAreNotHandedOut) {
  const auto gate = std::make_shared<Gate>();
  HostStream stream;
  PinnedPool pool(4);
  const int first = taken_and_sent(pool, stream, gate);
  const int second = pool.take();
  EXPECT_NE(second, first)
      << "hint: the host gave it back, but the copy has not read it yet: who may still be reading?";
  gate->open();
  stream.record().synchronize();
  EXPECT_EQ(pool.take(), first) << "hint: the copy is done, so the first buffer is free";
  EXPECT_EQ(pool.locked(), 2);
}

TEST(Exercise11, EveryReaderCounts) {
  const auto gate = std::make_shared<Gate>();
  HostStream slow, fast;
  PinnedPool pool(4);
  const int buffer = pool.take();
  slow.run([gate] { gate->wait(); });
  pool.reading(buffer, slow.record());
  pool.reading(buffer, fast.record());
  pool.give_back(buffer);
  fast.record().synchronize();
  EXPECT_NE(pool.take(), buffer) << "hint: two devices read this buffer, and one of them is not done";
  gate->open();
}

TEST(Exercise11, AnyFreeBufferWillDo) {
  const auto gate = std::make_shared<Gate>();
  HostStream slow, fast;
  PinnedPool pool(2);
  taken_and_sent(pool, slow, gate);
  const int free = pool.take();
  pool.reading(free, fast.record());
  pool.give_back(free);
  fast.record().synchronize();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(pool.take(), free) << "hint: the buffer that was given back first is still read, but the other one is free";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s) << "hint: nobody has to wait while a buffer is free";
  gate->open();
}

TEST(Exercise11, WaitsWhenNoMoreMayBeLocked) {
  const auto gate = std::make_shared<Gate>();
  bool opened = false;
  HostStream stream;
  PinnedPool pool(1);
  const int first = taken_and_sent(pool, stream, gate);
  std::thread later([&] {
    std::this_thread::sleep_for(50ms);
    opened = true;
    gate->open();
  });
  const int second = pool.take();
  later.join();
  EXPECT_EQ(second, first) << "hint: one buffer is all there is";
  EXPECT_TRUE(opened);
  EXPECT_EQ(pool.locked(), 1) << "hint: not more than `most` buffers may be locked";
}

TEST(Exercise11, AllTakenIsAnError) {
  PinnedPool pool(2);
  pool.take();
  pool.take();
  EXPECT_THROW(pool.take(), std::runtime_error)
      << "hint: nobody gave a buffer back, and who waits for it waits for ever";
}

TEST(Exercise11, NoBatchArrivesTorn) {
  constexpr int kBuffers = 3, kBatches = 300, kDevices = 2;
  constexpr size_t kValues = 64;
  std::array<std::array<int, kValues>, kBuffers> buffers{};
  std::array<std::array<int, kBatches>, kDevices> sums{};
  {
    std::array<HostStream, kDevices> streams;
    PinnedPool pool(kBuffers);
    for (int batch = 0; batch < kBatches; ++batch) {
      const int taken = pool.take();
      ASSERT_TRUE(taken >= 0 && taken < kBuffers) << "hint: not more than `most` buffers may be locked";
      auto& buffer = buffers[static_cast<size_t>(taken)];
      buffer.fill(batch);
      for (size_t device = 0; device < kDevices; ++device) {
        streams[device].run([&buffer, &sum = sums[device][static_cast<size_t>(batch)], device, batch] {
          if ((batch + static_cast<int>(device)) % 5 == 0) std::this_thread::sleep_for(200us);
          for (const int value : buffer) sum += value;
        });
        pool.reading(taken, streams[device].record());
      }
      pool.give_back(taken);
    }
  }
  for (size_t device = 0; device < kDevices; ++device) {
    for (int batch = 0; batch < kBatches; ++batch) {
      ASSERT_EQ(sums[device][static_cast<size_t>(batch)], batch * static_cast<int>(kValues))
          << "hint: batch " << batch << " was overwritten while device " << device << " read it";
    }
  }
}

}  // namespace
