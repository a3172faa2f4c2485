// CUDA's runtime: streams and events.

#include <algorithm>
#include <optional>
#include <utility>

#include "common/dry_gpu/places.h"
#include "common/dry_gpu/races.h"

namespace tenfold::dry {
namespace {

/// Somebody who asks whether something is done, and does nothing but ask, sees it done in the end.
constexpr int kMostQueries = 64;

Event* event_of(cudaEvent_t handle) {
  const std::lock_guard guard(state().lock);
  auto* const event = reinterpret_cast<Event*>(handle);
  return state().events.contains(event) ? event : nullptr;
}

/// As it is now: another thread may record it meanwhile.
std::optional<Event> now(cudaEvent_t handle) {
  const std::lock_guard guard(state().lock);
  const Event* const event = event_of(handle);
  return event == nullptr ? std::nullopt : std::optional(*event);
}

void count_wait() {
  const std::lock_guard guard(state().lock);
  ++state().counts.waits;
}

/// What it captures ends, or is no graph any more.
void leave_capture(Stream& stream) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return;
  capture->invalid = true;
  if (capture->origin != &stream) return;
  for (Stream* const of : state().streams) {
    if (of->capture == capture) of->capture = nullptr;
  }
  state().captures.erase(capture);
}

/// What it was handed over is done first.
void destroy(Stream* stream) {
  const std::lock_guard one_thread(state().running);  // who runs streams has a list of them
  run_all(*stream);
  const std::lock_guard guard(state().lock);
  leave_capture(*stream);
  state().streams.erase(stream);
  delete stream;
}

/// Each thread has default streams of its own where it asks for them; they go with it.
struct StreamsOfThread {
  std::map<int, Stream*> by_device;

  ~StreamsOfThread() {
    for (const auto& [device, stream] : by_device) destroy(stream);
  }
};

Stream* stream_of_thread() {
  thread_local StreamsOfThread streams;
  Stream*& stream = streams.by_device[current_device()];
  if (stream == nullptr) {
    stream = new Stream;
    stream->device = current_device();
    state().streams.insert(stream);
  }
  return stream;
}

cudaError_t make_stream(cudaStream_t* handle, unsigned flags, int priority) {
  if (handle == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0)
    return fail(cudaErrorInvalidValue);
  auto stream = std::make_unique<Stream>();
  stream->device = current_device();
  stream->flags = flags;
  stream->priority = std::min(0, std::max(-5, priority));
  const std::lock_guard guard(state().lock);
  state().streams.insert(stream.get());
  *handle = reinterpret_cast<cudaStream_t>(stream.release());
  return cudaSuccess;
}

/// Whether a stream captures into the same graph, which it joins by waiting for what was captured there.
cudaError_t wait_in_capture(Stream& stream, const Recording& recording) {
  if (recording.capture == nullptr) {
    stream.capture->invalid = true;
    return fail(cudaErrorStreamCaptureIsolation);
  }
  if (!state().captures.contains(recording.capture)) return fail(cudaErrorCapturedEvent);
  if (stream.capture != nullptr && stream.capture != recording.capture) {
    stream.capture->invalid = recording.capture->invalid = true;
    return fail(cudaErrorStreamCaptureMerge);
  }
  if (stream.legacy) {
    recording.capture->invalid = true;
    return fail(cudaErrorStreamCaptureImplicit);
  }
  if (stream.capture == nullptr) {
    stream.capture = recording.capture;
    stream.behind.clear();
  }
  stream.behind.insert(stream.behind.end(), recording.behind.begin(), recording.behind.end());
  return cudaSuccess;
}

/// Of an event that is a node of a graph of its own.
cudaError_t refuse_flags(const char* call) {
  refuse(call);
  return fail(cudaErrorNotSupported);
}

/// Of what is done at a time that is still to come: no, until somebody has done nothing but ask.
bool is_late(double time) {
  thread_local double asked_for = 0;
  thread_local int times = 0;
  if (state().time == nullptr || time <= state().time->now()) return false;
  times = asked_for == time ? times + 1 : 1;
  asked_for = time;
  if (times < kMostQueries) return true;
  times = 0;
  state().time->wait_until(time);
  return false;
}

cudaError_t query(const std::shared_ptr<Recording>& recording) {
  {
    const std::lock_guard guard(state().lock);
    if (is_late(recording->time)) return cudaErrorNotReady;
    if (recording->done) return cudaSuccess;
    // An answer, not an error: the next call must not find it as the last one.
    if (++recording->queries < kMostQueries) return cudaErrorNotReady;
  }
  // Not while another thread does work: who asks may hold what that work needs.
  const std::unique_lock one_thread(state().running, std::try_to_lock);
  if (!one_thread.owns_lock()) return cudaErrorNotReady;
  return run_until(*recording) ? cudaSuccess : cudaErrorNotReady;
}

/// Who asks until the answer is yes has waited. LibTorch's allocators ask, too, of which the program knows nothing:
/// they learn what memory they may hand out again.
void learn(const Clocks& known, void* asked_from) {
  if (!follows_order()) return;
  const std::lock_guard guard(state().lock);
  if (owner_of(reinterpret_cast<uintptr_t>(asked_from)) == Owner::allocators) {
    state().ordering->allocator_learns(known);
  } else {
    state().ordering->host_waits(known);
  }
}

}  // namespace

Stream* stream_of(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy)
    return state().devices[static_cast<size_t>(current_device())].legacy.get();
  const std::lock_guard guard(state().lock);
  if (handle == cudaStreamPerThread) return stream_of_thread();
  auto* const stream = reinterpret_cast<Stream*>(handle);
  return state().streams.contains(stream) ? stream : nullptr;
}

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return make_stream(stream, cudaStreamDefault, 0); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) { return make_stream(stream, flags, 0); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return make_stream(stream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Stream* const stream = stream_of(handle);
  if (stream == nullptr || stream->legacy || handle == cudaStreamPerThread) return fail(cudaErrorInvalidResourceHandle);
  destroy(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  const Stream* const stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  *priority = stream->priority;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return fail(cudaErrorStreamCaptureUnsupported);
  }
  if (const cudaError_t error = forbidden_while_capturing(); error != cudaSuccess) return error;
  const LeftOut left_out = leaves_out_call("cudaStreamSynchronize");
  if (left_out.now) return cudaSuccess;
  count_wait();
  synchronize(*stream, left_out.without);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return fail(cudaErrorStreamCaptureUnsupported);
  }
  Clocks known;
  if (follows_order()) {
    const std::lock_guard guard(state().lock);
    known = known_by(*stream);
  }
  {
    const std::lock_guard guard(state().lock);
    if (state().time != nullptr && is_late(state().time->end_of(*stream))) return cudaErrorNotReady;
  }
  const std::shared_ptr<Recording> asked = asked_of(*stream);
  const cudaError_t error = asked == nullptr ? cudaSuccess : query(asked);
  if (error == cudaSuccess && follows_order()) {
    // A program's question: LibTorch's allocators ask events.
    const std::lock_guard guard(state().lock);
    state().ordering->host_waits(known);
  }
  return error;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned flags) {
  if (flags != cudaEventWaitDefault) return refuse_flags("cudaStreamWaitEvent(cudaEventWaitExternal)");
  const LeftOut left_out = leaves_out_call("cudaStreamWaitEvent");
  if (left_out.now) return cudaSuccess;
  std::shared_ptr<Recording> recording;
  Stream* stream = nullptr;
  {
    const std::lock_guard guard(state().lock);
    stream = stream_of(handle);
    const Event* const event = event_of(event_handle);
    if (stream == nullptr || event == nullptr) return fail(cudaErrorInvalidResourceHandle);
    recording = event->recording;
    if (recording == nullptr) return cudaSuccess;  // never recorded: nothing to wait for
    if (stream->capture != nullptr || recording->capture != nullptr) {
      const cudaError_t error = wait_in_capture(*stream, *recording);
      if (error == cudaSuccess && follows_order()) note_wait(*stream, *recording, left_out.without);
      return error;
    }
    if (follows_order()) note_wait(*stream, *recording, left_out.without);
    if (state().time != nullptr) stream->ends = std::max(stream->ends, recording->time);
    if (recording->done) return cudaSuccess;
  }
  return hand_over(*stream, {.kind = "wait", .waits = recording});
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  return hand_over(*stream, {.kind = "callback", .work = [=] { function(data); }});
}

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function, void* data, unsigned flags) {
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (flags != 0) return fail(cudaErrorInvalidValue);
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return fail(cudaErrorStreamCaptureUnsupported);
  }
  return hand_over(*stream, {.kind = "callback", .work = [=] { function(handle, cudaSuccess, data); }});
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  if (handle == nullptr) return fail(cudaErrorInvalidValue);
  auto event = std::make_unique<Event>();
  event->device = current_device();
  event->flags = flags;
  const std::lock_guard guard(state().lock);
  state().events.insert(event.get());
  *handle = reinterpret_cast<cudaEvent_t>(event.release());
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const std::lock_guard guard(state().lock);
  Event* const event = event_of(handle);
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle);
  state().events.erase(event);
  delete event;  // what waits for its recording keeps that
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event_handle, cudaStream_t handle, unsigned flags) {
  if (flags != cudaEventRecordDefault) return refuse_flags("cudaEventRecordWithFlags(cudaEventRecordExternal)");
  const LeftOut left_out = leaves_out_call("cudaEventRecord");
  if (left_out.now) return cudaSuccess;
  {
    const std::lock_guard guard(state().lock);
    Stream* const stream = stream_of(handle);
    Event* const event = event_of(event_handle);
    if (stream == nullptr || event == nullptr || stream->device != event->device)
      return fail(cudaErrorInvalidResourceHandle);
    const std::shared_ptr<Recording> before = std::exchange(event->recording, record(*stream));
    event->recording->known = Ordering::without_record(event->recording->known,
                                                       before == nullptr ? nullptr : &before->known, left_out.without);
  }
  run_what_is_ready();
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const std::optional<Event> event = now(handle);
  if (!event) return fail(cudaErrorInvalidResourceHandle);
  if (event->recording == nullptr) return cudaSuccess;
  if (event->recording->capture != nullptr) return fail(cudaErrorCapturedEvent);
  const cudaError_t error = query(event->recording);
  if (error == cudaSuccess) learn(event->recording->known, __builtin_return_address(0));
  return error;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const std::optional<Event> event = now(handle);
  if (!event) return fail(cudaErrorInvalidResourceHandle);
  if (event->recording == nullptr) return cudaSuccess;
  if (event->recording->capture != nullptr) return fail(cudaErrorCapturedEvent);
  const LeftOut left_out = leaves_out_call("cudaEventSynchronize");
  if (left_out.now) return cudaSuccess;
  count_wait();
  if (follows_order()) {
    const std::lock_guard guard(state().lock);
    state().ordering->host_waits(event->recording->known, left_out.without);
  }
  run_until(*event->recording);
  wait_by_the_clock(*event->recording);
  return cudaSuccess;
}

// No time is measured on a card that is not there: where none is modelled either, 0 lies between two events.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from_handle, cudaEvent_t to_handle) {
  const std::optional<Event> from = now(from_handle), to = now(to_handle);
  if (!from || !to || from->recording == nullptr || to->recording == nullptr ||
      ((from->flags | to->flags) & cudaEventDisableTiming) != 0)
    return fail(cudaErrorInvalidResourceHandle);
  const std::lock_guard guard(state().lock);
  if (!from->recording->done || !to->recording->done || is_late(to->recording->time)) return cudaErrorNotReady;
  *milliseconds = static_cast<float>((to->recording->time - from->recording->time) * 1e3);
  return cudaSuccess;
}
}

}  // namespace tenfold::dry
