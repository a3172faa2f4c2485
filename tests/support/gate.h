#pragma once
// What checks of work on other threads wait with, so that a wrong answer fails and does not hang.

#include <chrono>
#include <future>
#include <thread>

namespace tenfold::test {

/// Holds up whoever waits at it until it is opened, or for five seconds.
class Gate {
 public:
  void open() { promise_.set_value(); }
  void wait() const { opened_.wait_for(std::chrono::seconds(5)); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
};

/// Whether `condition` comes true within two seconds.
template <class Condition>
bool soon(const Condition& condition) {
  for (int ms = 0; ms < 2000; ++ms) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace tenfold::test
