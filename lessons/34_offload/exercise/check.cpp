#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/gate.h"

namespace {

using tenfold::HostStream;
using tenfold::test::Gate;
using tenfold::test::soon;
using namespace std::chrono_literals;

constexpr int kCount = 5;

/// A model in small: where each block's activations are, and everything that was done wrong with them.
class Model {
 public:
  explicit Model(std::chrono::microseconds copy = 0us, std::chrono::microseconds compute = 0us)
      : copy_(copy), compute_(compute) {}

  Blocks blocks() {
    return {.forward = [this](int i) { computes(i, "f"); },
            .send =
                [this](int i) {
                  {
                    const std::lock_guard lock(mutex_);
                    if (!complete_[at(i)]) fault("hint: block " + name(i) + " was sent before it was computed");
                  }
                  pause(i, copy_);
                  const std::lock_guard lock(mutex_);
                  if (!on_device_[at(i)]) fault("hint: block " + name(i) + " was freed while its copy read it");
                  on_host_[at(i)] = true;
                  done("s", i);
                },
            .free =
                [this](int i) {
                  const std::lock_guard lock(mutex_);
                  if (!on_device_[at(i)]) fault("hint: block " + name(i) + " was freed and was not there");
                  on_device_[at(i)] = false;
                  done("x", i);
                },
            .fetch =
                [this](int i) {
                  {
                    const std::lock_guard lock(mutex_);
                    if (!on_host_[at(i)])
                      fault("hint: block " + name(i) + " was fetched, and the host did not have it");
                    take_room(i);
                    complete_[at(i)] = false;
                  }
                  pause(i, copy_);
                  const std::lock_guard lock(mutex_);
                  complete_[at(i)] = true;
                  done("b", i);
                },
            .backward =
                [this](int i) {
                  {
                    const std::lock_guard lock(mutex_);
                    if (!on_device_[at(i)] || !complete_[at(i)])
                      fault("hint: block " + name(i) + " computed backwards before it was back");
                  }
                  pause(i, compute_);
                  const std::lock_guard lock(mutex_);
                  done("w", i);
                }};
  }

  /// Copies of this block wait at the gate.
  void hold(int block, const Gate& gate) {
    held_ = block;
    gate_ = &gate;
  }

  std::vector<std::string> faults() const {
    const std::lock_guard lock(mutex_);
    return faults_;
  }
  /// "f0": forward of block 0 is done; s sent, x freed, b back, w backward.
  bool is_done(const std::string& what) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::find(done_, what) != done_.end();
  }
  int most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }
  static std::string name(int i) { return std::to_string(i); }
  void fault(const std::string& what) { faults_.push_back(what); }
  void done(const std::string& what, int i) { done_.push_back(what + name(i)); }
  void take_room(int i) {
    on_device_[at(i)] = true;
    most_ = std::max(most_, static_cast<int>(std::ranges::count(on_device_, true)));
  }
  void computes(int i, const std::string& what) {
    {
      const std::lock_guard lock(mutex_);
      take_room(i);
    }
    pause(i, compute_);
    const std::lock_guard lock(mutex_);
    complete_[at(i)] = true;
    done(what, i);
  }
  void pause(int i, std::chrono::microseconds time) const {
    if (gate_ != nullptr && i == held_ && time == copy_) gate_->wait();
    std::this_thread::sleep_for(time);
  }

  std::chrono::microseconds copy_, compute_;
  int held_ = -1;
  const Gate* gate_ = nullptr;
  mutable std::mutex mutex_;
  std::vector<bool> on_device_ = std::vector<bool>(kCount), on_host_ = std::vector<bool>(kCount),
                    complete_ = std::vector<bool>(kCount);
  std::vector<std::string> faults_, done_;
  int most_ = 0;
};

/// Trains once, and waits for the end.
void run(Model& model) {
  const Blocks blocks = model.blocks();
  HostStream compute, copies;
  train(compute, copies, kCount, blocks);
  copies.record().synchronize();
  compute.record().synchronize();
  copies.record().synchronize();
}

void expect_no_faults(const Model& model) {
  for (const std::string& fault : model.faults()) ADD_FAILURE() << fault;
}

TEST(Exercise34, EveryBlockLeavesAndComesBack) {
  Model model;
  run(model);
  expect_no_faults(model);
  for (int i = 0; i < kCount; ++i) EXPECT_TRUE(model.is_done("w" + std::to_string(i))) << "hint: block " << i;
  for (int i = 0; i + 1 < kCount; ++i) {
    EXPECT_TRUE(model.is_done("s" + std::to_string(i))) << "hint: block " << i << " was never sent";
    EXPECT_TRUE(model.is_done("b" + std::to_string(i))) << "hint: block " << i << " never came back";
  }
}

TEST(Exercise34, SlowCopiesAreWaitedFor) {
  Model model(/*copy=*/3000us, /*compute=*/0us);
  run(model);
  expect_no_faults(model);
}

TEST(Exercise34, SlowComputeIsWaitedFor) {
  Model model(/*copy=*/0us, /*compute=*/3000us);
  run(model);
  expect_no_faults(model);
}

TEST(Exercise34, TwoBlocksHaveRoom) {
  for (const auto& [copy, compute] : {std::pair{3000us, 0us}, std::pair{0us, 3000us}}) {
    Model model(copy, compute);
    run(model);
    EXPECT_LE(model.most(), 2) << "hint: more than two blocks were on the device: wait for the copy that has left, and "
                                  "fetch only one block ahead";
  }
}

TEST(Exercise34, ABlockLeavesWhileTheNextOneComputes) {
  Gate gate;
  Model model(/*copy=*/1us);
  model.hold(0, gate);
  const Blocks blocks = model.blocks();
  HostStream compute, copies;
  train(compute, copies, kCount, blocks);
  EXPECT_TRUE(soon([&] { return model.is_done("f1"); })) << "hint: block 1 waited for the copy of block 0";
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(model.is_done("f2")) << "hint: block 2 took room that block 0 still has";
  gate.open();
  compute.record().synchronize();
  copies.record().synchronize();
}

TEST(Exercise34, TheHostNeverWaits) {
  Gate gate;
  Model model(/*copy=*/1us);
  model.hold(0, gate);
  const Blocks blocks = model.blocks();
  HostStream compute, copies;
  const auto begin = std::chrono::steady_clock::now();
  train(compute, copies, kCount, blocks);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s) << "hint: let a stream wait for an event, not the caller";
  gate.open();
  compute.record().synchronize();
  copies.record().synchronize();
}

}  // namespace
