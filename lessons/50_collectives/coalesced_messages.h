// installs as <tenfold/coalesced_messages.h>
#pragma once
// Messages of a rank that go out as one call. NCCL runs one call after another: a send would wait for a receive that is
// queued behind it, on both sides.

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace tenfold {

/// Between its construction and end() the group's sends and receives are collected; they then go out together. After an
/// exception in between, the destructor closes the call, or all later ones of this thread would be collected as well
/// and never start. What was collected goes out, so the group must not be used again.
class CoalescedMessages {
 public:
  CoalescedMessages(c10d::ProcessGroup& group, c10::DeviceType device) : group_(group), device_(device) {
    group_.startCoalescing(device_);
  }
  ~CoalescedMessages() {
    try {
      if (!ended_) group_.endCoalescing(device_);
    } catch (...) {  // the first exception says more
    }
  }
  CoalescedMessages(const CoalescedMessages&) = delete;
  CoalescedMessages& operator=(const CoalescedMessages&) = delete;

  /// The work of all of them.
  c10::intrusive_ptr<c10d::Work> end() {
    ended_ = true;
    return group_.endCoalescing(device_);
  }

 private:
  c10d::ProcessGroup& group_;
  c10::DeviceType device_;
  bool ended_ = false;
};

}  // namespace tenfold
