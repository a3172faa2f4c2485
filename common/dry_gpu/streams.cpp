#include <algorithm>

#include "common/dry_gpu/races.h"

namespace tenfold::dry {
namespace {

constexpr size_t kLongestQueue = 10'000;  // then its oldest half is done, which a GPU would have, too

/// What the stream's next item waits for; nullptr when it can begin, or there is none before `position`.
std::shared_ptr<Recording> hindrance(const Stream& stream, uint64_t position) {
  const std::lock_guard guard(state().lock);
  if (stream.done >= position || stream.queue.empty()) return nullptr;
  const std::shared_ptr<Recording>& waits = stream.queue.front().waits;
  return waits != nullptr && !waits->done ? waits : nullptr;
}

/// Takes the next item out. Not while one of the stream's is being done: its work may come by here again, since it may
/// give page-locked memory back, which records an event.
bool next_item(Stream& stream, uint64_t position, Item& item) {
  const std::lock_guard guard(state().lock);
  if (stream.busy || stream.done >= position || stream.queue.empty()) return false;
  item = std::move(stream.queue.front());
  stream.queue.pop_front();
  stream.busy = true;
  return true;
}

void run(Stream& stream, uint64_t position, bool forced) {
  const std::lock_guard one_thread(state().running);
  while (true) {
    // It stays in the queue meanwhile, so that nobody overtakes it.
    if (const std::shared_ptr<Recording> waits = hindrance(stream, position)) {
      if (forced) run(*waits->stream, waits->position, true);
      if (!waits->done) return;
    }
    Item item;
    if (!next_item(stream, position, item)) return;
    if (item.work) item.work();
    item.work = nullptr;  // what it holds goes before the stream goes on
    const std::lock_guard guard(state().lock);
    stream.busy = false;
    ++stream.done;
    if (item.records != nullptr) item.records->done = true;
  }
}

void push(Stream& stream, Item item) {
  stream.queue.push_back(std::move(item));
  ++stream.handed_over;
}

/// A place behind all that the stream itself was handed over.
std::shared_ptr<Recording> end_of(Stream& stream) {
  auto recording = std::make_shared<Recording>();
  recording->stream = &stream;
  push(stream, {.kind = "record", .records = recording});
  recording->position = stream.handed_over;
  return recording;
}

/// The default stream waits for all that blocking streams have been handed over, and these for the default one.
void wait_for_each_other(Stream& stream) {
  const auto wait_for = [&stream](Stream& other) {
    if (other.done < other.handed_over) push(stream, {.kind = "wait", .waits = end_of(other)});
  };
  if (stream.legacy) {
    for (Stream* const other : state().streams) {
      if (other->device == stream.device && blocking(*other)) wait_for(*other);
    }
  } else if (blocking(stream)) {
    wait_for(*state().devices[static_cast<size_t>(stream.device)].legacy);
  }
}

cudaError_t add_to_graph(Stream& stream, Item item) {
  Capture& capture = *stream.capture;
  if (capture.invalid) return fail(cudaErrorStreamCaptureInvalidated);
  if (capture.ordering != nullptr) note_item(stream, item);
  capture.graph->nodes.push_back({std::move(item), stream.behind});
  stream.behind = {capture.graph->nodes.size() - 1};
  return cudaSuccess;
}

}  // namespace

cudaError_t hand_over(Stream& stream, Item item) {
  {
    const std::lock_guard guard(state().lock);
    if (!stream.legacy && !stream.used) ++state().counts.side_streams;
    stream.used = true;
  }
  if (state().order == Order::at_once) {
    {
      const std::lock_guard guard(state().lock);
      if (stream.capture != nullptr) return add_to_graph(stream, std::move(item));
      ++stream.handed_over;
      ++stream.done;
      if (state().time != nullptr) state().time->run(stream, item);
    }
    if (item.work) item.work();
    if (item.records != nullptr) item.records->done = true;
    return cudaSuccess;
  }
  bool too_long = false;
  {
    const std::lock_guard guard(state().lock);
    if (stream.capture != nullptr) return add_to_graph(stream, std::move(item));
    wait_for_each_other(stream);
    note_item(stream, item);
    push(stream, std::move(item));
    too_long = stream.queue.size() > kLongestQueue;
  }
  if (too_long) run(stream, stream.done + kLongestQueue / 2, true);
  run_what_is_ready();
  return cudaSuccess;
}

std::shared_ptr<Recording> record(Stream& stream) {
  const std::lock_guard guard(state().lock);
  if (stream.capture != nullptr) {
    auto recording = std::make_shared<Recording>();
    recording->stream = &stream;
    recording->capture = stream.capture;
    recording->behind = stream.behind;
    if (stream.capture->ordering != nullptr) note_record(stream, *recording);
    return recording;
  }
  wait_for_each_other(stream);
  std::shared_ptr<Recording> recording = end_of(stream);
  if (follows_order()) note_record(stream, *recording);
  if (state().order == Order::at_once) {
    stream.queue.pop_back();
    stream.done = stream.handed_over;
    recording->done = true;
    if (const auto& time = state().time) recording->time = std::max(time->now(), time->end_of(stream));
  }
  return recording;
}

std::shared_ptr<Recording> asked_of(Stream& stream) {
  const std::lock_guard guard(state().lock);
  if (stream.asked == nullptr || stream.asked->done || stream.asked->position != stream.handed_over) {
    wait_for_each_other(stream);
    stream.asked = stream.done < stream.handed_over ? record(stream) : nullptr;
  }
  return stream.asked;
}

void run_what_is_ready() {
  if (state().order != Order::early) return;
  // Nobody waits for another thread's work here: he may hold what that work needs, as LibTorch's allocator of pinned
  // memory does when it records an event. Whoever runs work comes by here when he is done.
  const std::unique_lock one_thread(state().running, std::try_to_lock);
  if (!one_thread.owns_lock()) return;
  std::vector<Stream*> sides;
  {
    const std::lock_guard guard(state().lock);
    for (Stream* const stream : state().streams) {
      if (!stream->queue.empty()) sides.push_back(stream);
    }
  }
  // What one does may be what another one waits for.
  for (bool more = true; more;) {
    more = false;
    for (Stream* const stream : sides) {
      const uint64_t before = stream->done;
      run(*stream, stream->handed_over, false);
      more = more || stream->done > before;
    }
  }
}

bool run_until(const Recording& recording) {
  {
    const std::lock_guard guard(state().lock);
    if (recording.done) return true;
  }
  const std::lock_guard one_thread(state().running);
  if (!recording.done) run(*recording.stream, recording.position, true);  // else its stream may be gone
  run_what_is_ready();
  return recording.done;
}

void run_all(Stream& stream) {
  uint64_t all = 0;
  {
    const std::lock_guard guard(state().lock);
    wait_for_each_other(stream);
    all = stream.handed_over;
  }
  run(stream, all, true);
  run_what_is_ready();
}

void synchronize(Stream& stream, Without without) {
  if (follows_order() && stream.capture == nullptr) {
    const std::lock_guard guard(state().lock);
    note_host_waits(stream, without);
  }
  run_all(stream);
  if (stream.capture == nullptr) wait_by_the_clock(stream);
}

void run_device(int device) {
  const std::lock_guard one_thread(state().running);  // meanwhile nobody destroys a stream
  std::vector<Stream*> streams;
  {
    const std::lock_guard guard(state().lock);
    for (Device& of : state().devices) streams.push_back(of.legacy.get());
    streams.insert(streams.end(), state().streams.begin(), state().streams.end());
  }
  for (Stream* const stream : streams) {
    if (device < 0 || stream->device == device) run_all(*stream);
  }
  wait_by_the_clock(device);
}

}  // namespace tenfold::dry
