#include "common/dry_gpu/card_time.h"

#include <algorithm>
#include <ctime>

#include "common/dry_gpu/state.h"

namespace tenfold::dry {
namespace {

thread_local Pricing* pricing = nullptr;

}  // namespace

double CardTime::HostClock::wall() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_begin_).count();
}

double CardTime::HostClock::processor() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double CardTime::now() const { return clock_.now() + jumped_; }

DryTimes CardTime::times() const {
  const double time = now();
  return {.now = time, .jumped = time - clock_.wall(), .kernels = kernels_.seconds, .busy = busy_.seconds};
}

void CardTime::wait_until(double time) { jumped_ += std::max(0.0, time - now()); }

void CardTime::Busy::add(double begin, double end) {
  seconds += std::max(0.0, end - std::max(begin, until));
  until = std::max(until, end);
}

void CardTime::run(Stream& stream, const Item& item) {
  double begin = std::max(now(), end_of(stream));
  double* const engine =
      item.engine == Engine::kernels
          ? nullptr
          : &state().devices[static_cast<size_t>(stream.device)].copies_end[item.engine == Engine::to_device ? 0 : 1];
  if (engine != nullptr) begin = std::max(begin, *engine);
  stream.ends = begin + item.seconds;
  if (engine != nullptr) *engine = stream.ends;
  if (item.seconds > 0) {
    busy_.add(begin, stream.ends);
    if (engine == nullptr) kernels_.add(begin, stream.ends);
  }
  if (item.exclusive > 0) add_work(stream, item.exclusive);
}

double CardTime::free_from(int device, double time, double seconds) {
  if (working_.size() <= static_cast<size_t>(device)) working_.resize(static_cast<size_t>(device) + 1);
  std::map<double, double>& working = working_[static_cast<size_t>(device)];
  while (!working.empty() && working.begin()->second < now()) working.erase(working.begin());
  auto next = working.upper_bound(time);
  if (next != working.begin()) time = std::max(time, std::prev(next)->second);
  while (next != working.end() && next->first < time + seconds) {
    time = std::max(time, next->second);
    ++next;
  }
  working.emplace_hint(next, time, time + seconds);
  return time;
}

void CardTime::add_work(Stream& stream, double seconds) {
  const double begin = free_from(stream.device, stream.ends, seconds);
  stream.ends = begin + seconds;
  busy_.add(begin, stream.ends);
  kernels_.add(begin, stream.ends);
}

void CardTime::end_at(Stream& stream, double time, double seconds) {
  stream.ends = std::max(stream.ends, time);
  busy_.add(stream.ends - seconds, stream.ends);
  kernels_.add(stream.ends - seconds, stream.ends);
}

double CardTime::end_of(const Stream& stream) const {
  // The default stream waits for blocking ones, and they for it.
  double end = stream.ends;
  if (stream.legacy) {
    for (const Stream* const other : state().streams) {
      if (other->device == stream.device && blocking(*other)) end = std::max(end, other->ends);
    }
  } else if (blocking(stream)) {
    end = std::max(end, state().devices[static_cast<size_t>(stream.device)].legacy->ends);
  }
  return end;
}

double CardTime::end_of_device(int device) const {
  double end = 0;
  for (const Device& of : state().devices) {
    if (device < 0 || of.legacy->device == device) end = std::max(end, of.legacy->ends);
  }
  for (const Stream* const stream : state().streams) {
    if (device < 0 || stream->device == device) end = std::max(end, stream->ends);
  }
  return end;
}

Pricing::Pricing() : outer_(pricing) { pricing = this; }
Pricing::~Pricing() { pricing = outer_; }

void Pricing::settle(double work) {
  const std::lock_guard guard(state().lock);
  if (stream_ == nullptr) return;
  const Rates& rates = state().time->rates();
  const Lasting last = lasting(std::max(0.0, work - (launches_ - 1) * rates.least), rates.least, rates);
  const double too_long = lasting(0, rates.least, rates).seconds() - last.shared;  // as it was launched
  if (stream_->capture == nullptr) {
    stream_->ends -= too_long;
    if (last.exclusive > 0) state().time->add_work(*stream_, last.exclusive);
  } else if (!stream_->capture->graph->nodes.empty()) {
    Item& item = stream_->capture->graph->nodes.back().item;
    item.seconds -= too_long;
    item.exclusive += last.exclusive;
  }
}

bool note_price(Stream& stream) {
  if (pricing == nullptr) return false;
  pricing->stream_ = &stream;
  ++pricing->launches_;
  return true;
}

void wait_by_the_clock(const Stream& stream) {
  const std::lock_guard guard(state().lock);
  if (state().time != nullptr) state().time->wait_until(state().time->end_of(stream));
}

void wait_by_the_clock(int device) {
  const std::lock_guard guard(state().lock);
  if (state().time != nullptr) state().time->wait_until(state().time->end_of_device(device));
}

void wait_by_the_clock(const Recording& recording) {
  const std::lock_guard guard(state().lock);
  if (state().time != nullptr) state().time->wait_until(recording.time);
}

}  // namespace tenfold::dry
